"""Bytes that travel: four for every number that is sent, or what transforms of uploads make of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from torch import Tensor

from algorithms.base import Algorithm, Fed, State
from algorithms.uploads.base import Transform
from bench.metrics import BYTES_PER_PARAMETER as BYTES
from bench.metrics import GB
from bench.simulation.contract import Checked
from bench.simulation.transforms import message


class Traffic:
    """Totals over the run, per kind of link. `shared` [P] is the part of w that leaves a device at all, `upload` what
    becomes of it and of the method's extra vectors."""

    def __init__(self, algo: Checked, fed: Fed, shared: Tensor, upload: Sequence[Transform]) -> None:
        self.up = self.down = self.peer = 0
        self.message = BYTES * fed.layout.size  # a gradient from device to device
        vectors = len(algo.vectors(fed))
        beside = algo.extra_up(fed) - vectors * fed.layout.size  # what no transform changes
        self._beside = vectors * message(upload, fed.layout.size).bytes + BYTES * beside
        self._changes = type(algo.method).sends is not Algorithm.sends  # with the version
        self._kept = int((~shared).sum())  # numbers of w that never travel
        # a method that leaves layers out also gets its papers' figure: what one device would have sent that took part
        # in every aggregation (bench.metrics.upload_cost)
        partial = self._changes and bool(fed.layout.deep.any())
        self.every_round: int | None = 0 if partial and not bool(fed.layout.deep.all()) else None

        @lru_cache(maxsize=2)
        def sends(version: int) -> tuple[list[bool], int]:
            """Layers, and the bytes of these."""
            layers = algo.sends(version, fed)
            return layers.tolist(), message(upload, int((fed.layout.expand(layers) & shared).sum())).bytes

        self._sends = sends

    def upload(self, version: int) -> tuple[list[bool], int]:
        """The layers that devices which downloaded this version send, and the bytes of these and what the method sends
        beside them."""
        layers, size = self._sends(version if self._changes else 0)
        return layers, size + self._beside

    def aggregated(self, version: int) -> None:
        """The server made a version out of this one."""
        if self.every_round is not None:
            self.every_round += self._sends(version)[1]

    def row(self) -> dict[str, float]:
        """The columns of metrics.csv."""
        totals: dict[str, float] = {"bytes_up": self.up, "bytes_down": self.down, "bytes_peer": self.peer}
        return totals if self.every_round is None else totals | {"upload_gb_every_round": self.every_round / GB}

    def download_size(self, server: State, algo: Algorithm) -> int:
        numbers = sum(server[name].numel() for name in algo.broadcast)
        numbers += sum(server[name][0].numel() for name in algo.unicast)
        return BYTES * (numbers - self._kept)

    def state_dict(self) -> dict[str, int | None]:
        return {"up": self.up, "down": self.down, "peer": self.peer, "every_round": self.every_round}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.up, self.down, self.peer, self.every_round = (
            state[name] for name in ("up", "down", "peer", "every_round")
        )
