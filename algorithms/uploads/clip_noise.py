"""Clipping, and Gaussian noise that the device adds itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from algorithms.base import State
from algorithms.uploads.base import Draw, Sent, Transform


@dataclass(frozen=True, kw_only=True)
class Clip_Noise(Transform):
    """Cuts each vector to the norm `clip`; the device adds Gaussian noise of deviation noise * clip to every number.

    McMahan, Ramage, Talwar, Zhang: Learning Differentially Private Recurrent Language Models. ICLR 2018 (DP-FedAvg).
    There the server adds noise of deviation z clip to the sum of a round; K devices that add noise * clip each are
    z = noise sqrt(K).

    x becomes x min(1, clip / |x|) + noise clip N(0, 1). It costs no bytes.
    """

    clip: float = field(default=1.0, metadata={"above": 0})
    noise: float = field(default=0.01, metadata={"min": 0})

    def send(self, values: Tensor, memory: State, draw: Draw) -> Sent:
        x = values.double()
        x = x * (self.clip / x.norm().clamp(min=self.clip))
        if self.noise:
            x = x + self.noise * self.clip * draw.normal(len(x))
        return Sent(x.to(values.dtype))
