"""A chain as bench/c sees it: stages of maps, where samples are maps, and then linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from bench.engine.compile import pair, pool_first
from bench.engine.convolutions import Geometry
from bench.engine.dense import linear_row, places
from bench.engine.layers import MapShape
from bench.engine.stack import Linear
from bench.engine.structure import chain

WHOLE = ((1, 1), (1, 1))


@dataclass(frozen=True)
class Stage:
    """A convolution with its bias, a pooling and a ReLU, of which any may be missing, on maps of `shape`."""

    shape: MapShape
    found: MapShape  # what the convolution makes of it, or the same
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    up: int = 0
    left: int = 0
    weight: int | None = None  # places of its parameters in a model
    bias: int | None = None
    pool: tuple[tuple[int, int], tuple[int, int]] = WHOLE  # window and stride
    mean: bool = False  # it pools by the mean
    relu: bool = False

    @property
    def pools(self) -> bool:
        return self.pool != WHOLE

    @property
    def result(self) -> MapShape:
        window, stride = self.pool
        high, wide = ((n - w) // s + 1 for n, w, s in zip(self.found[1:], window, stride, strict=True))
        return self.found[0], high, wide


def parts(module: nn.Module, shape: tuple[int, ...]) -> tuple[list[Stage], list[Linear]] | str:
    """For samples of `shape`; or why the model cannot be seen so."""
    layers = chain(module)
    if isinstance(layers, str):
        return layers
    first = next(i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear))
    maps = [layer for layer in layers[:first] if not isinstance(layer, nn.Flatten)]
    linears = linear_row(module, layers[first:] if maps else layers, maps)
    if isinstance(linears, str) or not maps:
        return linears if isinstance(linears, str) else ([], linears)
    if len(shape) != 3 or len(maps) == first:
        return "its samples are no maps, or no nn.Flatten follows them"
    return _stages(pool_first(maps), (shape[0], shape[1], shape[2]), places(module)), linears


def _stages(layers: Sequence[nn.Module], shape: MapShape, place: dict[int, int]) -> list[Stage]:
    found: list[Stage] = []
    for layer in layers:
        shape = found[-1].result if found else shape
        last = found[-1] if found and not isinstance(layer, nn.Conv2d) else None
        if last is None or not (isinstance(layer, nn.ReLU) or not (last.pools or last.relu)):
            found.append(Stage(shape, shape))
        now = found[-1]
        match layer:
            case nn.Conv2d():
                at = Geometry(layer, shape)
                now = replace(
                    now,
                    found=(at.outer, at.rows, at.columns),
                    kernel=(layer.kernel_size[0], layer.kernel_size[1]),
                    stride=(layer.stride[0], layer.stride[1]),
                    up=at.up,
                    left=at.left,
                    weight=place[id(layer.weight)],
                    bias=None if layer.bias is None else place[id(layer.bias)],
                )
            case nn.MaxPool2d():
                now = replace(now, pool=(pair(layer.kernel_size), pair(layer.stride)))
            case nn.AdaptiveAvgPool2d():
                now = replace(now, pool=((now.found[1], now.found[2]), (1, 1)), mean=True)
            case nn.ReLU():
                now = replace(now, relu=True)
        found[-1] = now
    return found
