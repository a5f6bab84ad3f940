"""Is a model a chain: linear, convolution, ReLU, pooling and flatten in a row, with cross-entropy at the end?"""

from __future__ import annotations

from torch import nn


def chain(module: nn.Module) -> list[nn.Module] | str:
    """The layers that do something, in their order; or why the model is no chain."""
    if not hasattr(module, "cross_entropy"):
        return "its training step is its own"
    if not module.cross_entropy:
        return "its loss is no cross-entropy"
    layers: list[nn.Module] = []
    for layer in _flat(module.get_submodule("net")):
        if reason := _stranger(layer):
            return reason
        if not isinstance(layer, nn.Identity | nn.Dropout):
            layers.append(layer)
    trained = [id(layer) for layer in layers if isinstance(layer, nn.Linear | nn.Conv2d)]
    if len(set(trained)) < len(trained):
        return "it uses a layer twice"
    if not isinstance(layers[-1], nn.Linear):
        return "it does not end in a linear layer"
    return layers


def _flat(net: nn.Module) -> list[nn.Module]:
    return [leaf for layer in net for leaf in _flat(layer)] if isinstance(net, nn.Sequential) else [net]


def _stranger(layer: nn.Module) -> str | None:
    """Why the layer cannot be part of a chain."""
    match layer:
        case nn.Flatten():
            known = layer.start_dim == 1 and layer.end_dim == -1
        case nn.Conv2d():
            known = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
        case nn.MaxPool2d():
            known = layer.padding == 0 and layer.dilation == 1 and not layer.ceil_mode and not layer.return_indices
        case nn.AdaptiveAvgPool2d():
            known = layer.output_size in (1, (1, 1))
        case nn.Dropout():
            known = layer.p == 0
        case _:
            known = type(layer) in (nn.Linear, nn.ReLU, nn.Identity)
    return None if known else f"it contains {type(layer).__name__ if list(layer.children()) else layer}"
