"""Networks for text: an input is a window of characters, each a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

EMBEDDED = 8  # numbers a character, as in LEAF's model for Shakespeare


class Characters(nn.Embedding):
    """Numbers of characters, which come as the model's kind of number."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.long())


class LastState(nn.GRU):
    """What a gated recurrent unit has in mind at the end of the window."""

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:  # type: ignore[override]
        last: Tensor = super().forward(x, hx)[1][0]
        return last


def char_mlp(model: Mapping[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """A perceptron on the window's embedded characters (Bengio et al. 2003)."""
    layers: list[nn.Module] = [Characters(classes, EMBEDDED), nn.Flatten()]
    inner = shape[0] * EMBEDDED
    for units in _hidden(model):
        layers += [nn.Linear(inner, units), nn.ReLU()]
        inner = units
    return nn.Sequential(*layers, nn.Linear(inner, classes))


def char_gru(model: Mapping[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """A gated recurrent unit that reads the window (Cho et al. 2014)."""
    (units,) = _hidden(model)
    return nn.Sequential(
        Characters(classes, EMBEDDED), LastState(EMBEDDED, units, batch_first=True), nn.Linear(units, classes)
    )


def _hidden(model: Mapping[str, Any]) -> list[int]:
    return [max(1, round(units * model["width"])) for units in model["hidden"]]
