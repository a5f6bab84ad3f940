"""Import this before torchvision or pytorch_lightning: it makes a torchvision built for another torch importable.

A CUDA wheel of torchvision beside a CPU torch fails with "operator torchvision::nms does not exist", and so does
Lightning, which imports it through torchmetrics. Declaring the two missing operators is enough for data sets,
transforms and classification models. A matching pair must not be touched: declaring them twice aborts.
"""

import torch

_library: torch.library.Library | None = None  # the declarations live as long as this object

try:
    import torchvision
except RuntimeError as error:
    if "torchvision::nms" not in str(error):
        raise
    _library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for _name in ("nms", "qnms"):
        _schema = f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        _library.define(_schema)  # type: ignore[no-untyped-call]
    import torchvision

__all__ = ["torchvision"]
