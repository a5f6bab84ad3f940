"""Gradients on their way from device to device, and those that wait to be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from bench.simulation.dispatch import Job

Letter = Job | Tensor  # a job whose gradient is not needed yet, or the gradient itself


class Mail:
    """A device reads its inbox when it starts: the latest letter of every sender, however long it lay there."""

    def __init__(self) -> None:
        self.posted: dict[int, tuple[int, Letter, int]] = {}  # job -> sender, letter, copies still on their way
        self.inbox: dict[int, dict[int, Letter]] = {}  # device -> sender -> letter

    def post(self, job: Job, copies: int) -> None:
        if copies:
            self.posted[job.id] = (job.client, job, copies)

    def deliver(self, job: int, recipient: int) -> None:
        sender, letter, copies = self.posted.pop(job)
        self.inbox.setdefault(recipient, {})[sender] = letter
        if copies > 1:
            self.posted[job] = (sender, letter, copies - 1)

    def waiting(self, device: int) -> list[Letter]:
        return [letter for _, letter in sorted(self.inbox.get(device, {}).items())]

    def read(self, device: int) -> list[Letter]:
        found = self.waiting(device)
        self.inbox.pop(device, None)
        return found

    def state_dict(self, in_flight: Mapping[int, Job], gradient: Callable[[Letter], Tensor]) -> dict[str, Any]:
        """A letter whose sender is still in flight is stored by its job, which is recomputed after a resume."""

        def plain(letter: Letter) -> int | Tensor:
            if isinstance(letter, Job) and letter.id in in_flight:
                return letter.id
            return gradient(letter).clone()

        return {
            "posted": {job: [sender, plain(letter), n] for job, (sender, letter, n) in self.posted.items()},
            "inbox": {device: {s: plain(x) for s, x in letters.items()} for device, letters in self.inbox.items()},
        }

    def load_state_dict(self, state: dict[str, Any], in_flight: Mapping[int, Job]) -> None:
        def letter(value: int | Tensor) -> Letter:
            return in_flight[value] if isinstance(value, int) else value

        self.posted = {job: (sender, letter(x), copies) for job, (sender, x, copies) in state["posted"].items()}
        self.inbox = {d: {s: letter(x) for s, x in letters.items()} for d, letters in state["inbox"].items()}
