"""Bytes that travel: four for every number that is sent."""

from __future__ import annotations

from torch import Tensor

from algorithms.base import Algorithm, Fed, State

BYTES = 4


class Traffic:
    """Totals over the run, per kind of link. `shared` [P] is the part of w that leaves a device at all."""

    def __init__(self, algo: Algorithm, fed: Fed, shared: Tensor) -> None:
        self.up = self.down = self.peer = 0
        self.message = BYTES * fed.layout.size  # a gradient from device to device
        self._fed, self._shared, self._extra_up = fed, shared, algo.extra_up(fed)
        self._kept = int((~shared).sum())

    def upload_size(self, layers: Tensor) -> int:
        """The layers that are sent, and what the method sends beside them."""
        return BYTES * (int((self._fed.layout.expand(layers) & self._shared).sum()) + self._extra_up)

    def download_size(self, server: State, algo: Algorithm) -> int:
        numbers = sum(server[name].numel() for name in algo.broadcast)
        numbers += sum(server[name][0].numel() for name in algo.unicast)
        return BYTES * (numbers - self._kept)

    def state_dict(self) -> dict[str, int]:
        return {"up": self.up, "down": self.down, "peer": self.peer}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.up, self.down, self.peer = state["up"], state["down"], state["peer"]
