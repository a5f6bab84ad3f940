"""A model is one flat vector; Layout says which part of it is which layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Layout:
    """The order of a module's parameters in the flat vector, cut into layers.

    A layer is a submodule with parameters of its own. The network may declare `deep` (names of its fully connected
    part) and `head` (name of its last layer); otherwise every nn.Linear is deep and the last layer is the head.
    """

    def __init__(self, module: nn.Module) -> None:
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise ValueError("the model has no trainable parameters")
        self.shapes = [tuple(p.shape) for _, p in named]
        self.numels = [p.numel() for _, p in named]
        self.size = sum(self.numels)
        owners = [name.rpartition(".")[0] for name, _ in named]
        self.layers = tuple(dict.fromkeys(owners))
        if any(owners[i] != owners[i - 1] and owners[i] in owners[:i] for i in range(1, len(owners))):
            raise ValueError("the parameters of a layer have to follow each other")
        sizes = dict.fromkeys(self.layers, 0)
        for owner, numel in zip(owners, self.numels, strict=True):
            sizes[owner] += numel
        device = named[0][1].device
        device = torch.device("cpu") if device.type == "meta" else device  # which layer is which is known all the same
        self.sizes = torch.tensor(list(sizes.values()), device=device)
        submodules = dict(module.named_modules())
        prefix, net = next(
            ((f"{name}." if name else "", m) for name, m in submodules.items() if hasattr(m, "head")), ("", module)
        )
        head = f"{prefix}{net.head}" if isinstance(getattr(net, "head", None), str) else self.layers[-1]
        deep = getattr(net, "deep", None)
        deep = deep if isinstance(deep, tuple | list) else None  # it may be a layer of that name

        def is_deep(layer: str) -> bool:
            if deep is None:
                return isinstance(submodules[layer], nn.Linear)
            return any(_inside(layer, f"{prefix}{name}") for name in deep)

        self.head_name = head
        self.head = torch.tensor([_inside(layer, head) for layer in self.layers], device=device)
        self.deep = torch.tensor([is_deep(layer) for layer in self.layers], device=device)

    def expand(self, layers: Tensor) -> Tensor:
        """[..., L] -> [..., P]"""
        return torch.repeat_interleave(layers, self.sizes, dim=-1, output_size=self.size)

    def part(self, name: str) -> Tensor:
        """[P] bool: the coordinates of `none`, `body`, `head` or `all`."""
        nothing = torch.zeros_like(self.head)
        return self.expand({"none": nothing, "body": ~self.head, "head": self.head, "all": ~nothing}[name])

    def views(self, flat: Tensor) -> list[Tensor]:
        """The parameters' shapes as views into [P]."""
        return [part.view(shape) for part, shape in zip(torch.split(flat, self.numels), self.shapes, strict=True)]

    def rows(self, models: Tensor) -> Tensor:
        """A copy of [K, P] whose every row begins on a 64-byte boundary: matrix products round differently where it
        does not, and a device's result must not depend on its place in the batch."""
        return self.blank(len(models), models).copy_(models)

    def blank(self, count: int, like: Tensor) -> Tensor:
        """Room for `count` such rows."""
        numbers = 64 // like.element_size()
        return like.new_empty(count, -(-self.size // numbers) * numbers)[:, : self.size]

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.detach().reshape(-1) for t in tensors])


def _inside(layer: str, name: str) -> bool:
    return layer == name or layer.startswith(f"{name}.")


def bind(module: nn.Module, views: Sequence[Tensor]) -> None:
    """Makes a module compute with these parameters, in place and without a copy."""
    for p, view in zip(trainable(module), views, strict=True):
        p.data = view


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]
