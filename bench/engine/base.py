"""What every engine does around the local steps: rules, bookkeeping, and what a method needs beyond the models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, Trained
from bench import own_code
from bench.engine.border import check_rule, expect
from bench.engine.head import prototypes
from bench.engine.kernel import EffectiveSteps
from bench.engine.steps import Steps
from bench.engine.trace import Sink
from bench.learning.batches import Batches, Pass
from bench.learning.evaluate import Answers
from bench.learning.flat import Layout, trainable

TUNING = 2**31  # the number of a dispatch that never happens
SUMS = frozenset({"last_gradient", "mean_gradient"})


@dataclass
class Group:
    """Devices that train in one engine call, a row each."""

    clients: list[int]
    dispatch: Sequence[int]
    batches: list[list[Pass]]  # of each device, for each of its epochs: the sample numbers of every step
    augmentation: list[np.random.Generator | None]
    w: Tensor  # [K, P]
    received: Tensor  # [K, P]
    m: Tensor | None  # [K, P], with momentum
    moments: Tensor | None  # [2, K, P], with Adam
    loss: Tensor  # [K]: summed over the steps
    sums: dict[str, Tensor]  # [K, P]: gradients as `requires` names them; "epoch": of the epoch that is going on
    steps: Steps  # is told of those that have been taken

    def __post_init__(self) -> None:
        self._epochs = np.array([len(epochs) for epochs in self.batches])

    def active(self, epoch: int) -> list[int]:
        return np.flatnonzero(self._epochs > epoch).tolist()

    def taken(self, k: int, epoch: int) -> int:
        """Steps of the device in row k before this epoch."""
        return sum(len(batches) for batches in self.batches[k][:epoch])

    def took(self, devices: Iterable[int], epoch: int) -> None:
        """These rows have taken their steps of the epoch."""
        self.steps.add(sum(self.batches[k][epoch].steps for k in devices))


class Counts:
    """What each device did."""

    def __init__(self, devices: int, epochs: int, momentum: float) -> None:
        self.effective_steps = EffectiveSteps(devices, momentum)
        self.rates = np.zeros((devices, epochs))
        self.steps, self.evaluations = np.zeros(devices, dtype=np.int64), np.zeros(devices, dtype=np.int64)
        self.lr_sum = np.zeros(devices)

    def add(self, group: Group, epoch: int, active: list[int], rule: LocalRule, lr: float) -> None:
        steps = np.array([group.batches[k][epoch].steps for k in active])
        rates = numbers(lr if rule.lr is None else rule.lr, group)[active]
        self.steps[active] += steps
        self.evaluations[active] += steps * (2 if rule.sam else 1)
        self.rates[active, epoch] = rates
        self.lr_sum[active] += steps * rates
        self.effective_steps.add(active, steps, rates * numbers(rule.prox, group)[active])


class Engine(ABC):
    """How g is got and steps are taken. A device's result must not depend, to the bit, on who is in its group."""

    name: ClassVar[str]
    parallel_parts: ClassVar[int] = 1  # parts of a call that are computed at a time
    together: int = 1  # devices that a call has to have to be fast
    optimizers: ClassVar[bool] = False  # its steps are the kernel's, which knows others than SGD
    answers: Answers | None = None  # of a model to inputs, where the engine is faster at it than the module

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        self.module, self.layout, self.batches, self.steps = module, layout, batches, Steps()
        self.dtype = reduce(torch.promote_types, (p.dtype for p in trainable(module)))

    @property
    def alone(self) -> Engine:  # the one in this process
        return self

    @abstractmethod
    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        """One local epoch of every active device, in place: w, m, loss and sums; tells group.steps."""

    @abstractmethod
    def gradient(self, w: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss [] and gradient [P] of the model w [P] on these samples, as when testing (no dropout)."""

    def train(
        self, algo: Algorithm, fed: Fed, jobs: Jobs, dispatch: Sequence[int], trace: Sink | None = None
    ) -> tuple[Trained, list[int]]:
        """Trains every job; also returns each one's number of mini-batch gradients."""
        requires, clients, whose = algo.requires, jobs.client.tolist(), own_code.target(type(algo))
        for what, models in (("start from", jobs.start), ("download", jobs.received)):
            expect(f"The w that devices of {whose} {what}", models, self.dtype, len(clients), self.layout.size)
        group = self._group(fed, clients, dispatch, jobs.epochs.tolist(), jobs.start, jobs.received, requires & SUMS)
        counts = Counts(len(clients), fed.epochs, fed.momentum)
        self.module.train()
        for epoch in range(max(len(epochs) for epochs in group.batches)):
            active = group.active(epoch)
            if trace is not None:
                group.sums["epoch"] = torch.zeros_like(group.w)
                for k in active:
                    trace.reach(epoch, group.w[k])
            rule = algo.local(jobs, group.w, epoch, fed)
            check_rule(rule, group.w, f"local of {whose}")
            self.epoch(group, epoch, rule, fed)
            counts.add(group, epoch, active, rule, fed.lr)
            if trace is not None:
                for k in active:
                    steps = group.batches[k][epoch].steps if "step_means" in requires else 1
                    trace.add(epoch, group.sums["epoch"][k] / steps)
        if trace is not None:
            for k, epochs in enumerate(group.batches):
                trace.reach(len(epochs), group.w[k])
        return self._trained(requires, jobs, group, counts), counts.evaluations.tolist()

    def tune(self, fed: Fed, w: Tensor, client: int, rule: LocalRule, epochs: int) -> Tensor:
        """The model w [P] after `epochs` of a device's data by one rule, on batches no dispatch sees."""
        expect("The w that devices fine-tune", w, self.dtype, self.layout.size)
        check_rule(rule, w[None], "personal_rule")
        group = self._group(fed, [client], [TUNING], [epochs], w[None], w[None], frozenset())
        self.module.train()
        for epoch in range(epochs):
            self.epoch(group, epoch, rule, fed)
        return group.w[0]

    def _group(
        self,
        fed: Fed,
        clients: list[int],
        dispatch: Sequence[int],
        epochs: list[int],
        start: Tensor,
        received: Tensor,
        sums: frozenset[str],
    ) -> Group:
        w = self.layout.rows(start)
        return Group(
            clients=clients,
            dispatch=dispatch,
            batches=self.batches.every(clients, dispatch, epochs),
            augmentation=[self.batches.augmentation(*device) for device in zip(clients, dispatch, strict=True)],
            w=w,
            received=received,
            m=torch.zeros_like(w) if fed.momentum else None,
            moments=w.new_zeros(2, *w.shape) if fed.optimizer else None,
            loss=w.new_zeros(len(w)),
            sums={name: torch.zeros_like(w) for name in sorted(sums)},
            steps=self.steps,
        )

    def _trained(self, requires: frozenset[str], jobs: Jobs, group: Group, counts: Counts) -> Trained:
        w = group.w
        steps = w.new_tensor(counts.steps)
        if "mean_gradient" in requires:
            group.sums["mean_gradient"] /= steps[:, None]
        found = self._at_received(requires, jobs, counts)
        if "prototypes" in requires:
            found |= prototypes(self.module, self.layout, self.batches, group.clients, w)
        return Trained(
            end=w,
            steps=steps,
            effective_steps=w.new_tensor(counts.effective_steps.total),
            lr_sum=w.new_tensor(counts.lr_sum),
            rates=w.new_tensor(counts.rates),
            loss=group.loss / steps,
            **{name: value for name, value in group.sums.items() if name in SUMS},
            **found,
        )

    def _at_received(self, requires: frozenset[str], jobs: Jobs, counts: Counts) -> dict[str, Tensor]:
        """Loss and full-batch gradient of each device at the model it received."""
        if not requires & {"full_gradient", "start_loss"}:
            return {}
        self.module.eval()
        full = torch.zeros_like(jobs.start) if "full_gradient" in requires else None
        losses = jobs.start.new_zeros(len(jobs.start))
        for k, client in enumerate(jobs.client.tolist()):
            self.steps.look()
            received = self.layout.rows(jobs.received[k : k + 1])[0]
            whole = self.batches.whole(client)
            samples = sum(len(index) for index in whole)
            for index in whole:
                share = len(index) / samples
                if full is None:
                    losses[k] += self.loss_of(received, index) * share
                    continue
                loss, g = self.gradient(received, index)
                losses[k] += loss * share
                full[k].add_(g, alpha=share)
            counts.evaluations[k] += self.batches.passes(client)
        found = {"full_gradient": full, "start_loss": losses}
        return {name: value for name, value in found.items() if value is not None and name in requires}

    def loss_of(self, w: Tensor, index: Tensor) -> Tensor:
        """Of some samples, without a gradient where the engine answers without one."""
        if self.answers is None:
            return self.gradient(w, index)[0]
        x, y = self.batches.load(index)
        return functional.cross_entropy(self.answers(w, x), y)


def numbers(value: float | Tensor, group: Group) -> np.ndarray:
    """A term of the rule for each device, in double precision."""
    if isinstance(value, Tensor):
        return value.double().numpy(force=True)
    return np.full(len(group.clients), float(value))
