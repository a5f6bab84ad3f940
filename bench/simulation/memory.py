"""What the devices remember: a row is stored on a device's first write, until then it has the initial value."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from algorithms.base import State


class Memory:
    def __init__(self, initial: State, clients: int) -> None:
        self.initial = initial
        self.clients = clients
        self._rows: dict[int, State] = {}

    def read(self, clients: Sequence[int]) -> State:
        """[K, ...] per name."""
        return {
            name: torch.stack([self._rows.get(client, self.initial)[name] for client in clients])
            for name in self.initial
        }

    def write(self, client: int, values: State) -> None:
        if values:
            self._rows[client] = {**self._rows.get(client, self.initial), **{k: v.clone() for k, v in values.items()}}

    def rows(self, name: str) -> Tensor:
        return torch.stack([self._rows.get(client, self.initial)[name] for client in range(self.clients)])

    def state_dict(self) -> dict[int, State]:
        return {client: dict(row) for client, row in self._rows.items()}

    def load_state_dict(self, state: dict[int, State]) -> None:
        self._rows = {client: dict(row) for client, row in state.items()}
