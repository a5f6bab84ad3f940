"""Lightning without what no run here asks of it: import it from here.

It imports torch's compiler to recognise modules that were compiled, and torchmetrics, which imports torchvision,
matplotlib, SciPy and PIL where they are installed, for metrics of images and sound and for plots: together four times
the work of Lightning itself. Here they are absent while it is imported, and a stand-in is the compiler. Who imports
Lightning before this, as a file with a LightningModule of one's own does, has everything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any
from unittest.mock import patch

from lightning_utilities.core import imports
from torch import nn

OPTIONAL = ("PIL", "matplotlib", "rich", "scipy", "torchvision")
COMPILER = "torch._dynamo"


class _Compiled(type):
    """Compiled modules are those of torch's compiler, once somebody uses it."""

    def __instancecheck__(cls, value: Any) -> bool:
        compiler = sys.modules.get(COMPILER)
        return compiler is not None and isinstance(value, compiler.OptimizedModule)


@contextmanager
def _absent() -> Iterator[None]:
    """What nobody has imported yet is not there."""
    hidden = [name for name in OPTIONAL if name not in sys.modules]

    def found(name: str) -> str:
        if name in hidden:
            raise PackageNotFoundError(name)
        return version(name)

    stand_ins: dict[str, Any] = dict.fromkeys(hidden)  # None: it cannot be found
    if COMPILER not in sys.modules:
        stand_ins[COMPILER] = ModuleType(COMPILER)
        stand_ins[COMPILER].OptimizedModule = _Compiled("OptimizedModule", (nn.Module,), {})
        stand_ins[COMPILER].disable = lambda function, *how, **why: function  # no compiled code calls it
    sys.modules.update(stand_ins)
    try:
        with patch.object(imports, "_version", found):
            yield
    finally:
        for name in stand_ins:
            del sys.modules[name]
        imports.package_available.cache_clear()
        imports.module_available.cache_clear()


with _absent():
    import pytorch_lightning as pl
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from pytorch_lightning.plugins.io import TorchCheckpointIO

__all__ = ["LightningEnvironment", "TorchCheckpointIO", "pl"]
