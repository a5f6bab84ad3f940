"""The engine that asks autograd for g: any module, one device after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, Trained
from algorithms.views import Trace
from bench.batches import Batch, Batches
from bench.engine import kernel
from bench.engine.kernel import Units, Vector
from bench.flat import Layout, trainable
from bench.seeding import stream

TUNING = 2**31  # the number of a dispatch that never happens


@dataclass
class TraceSums:
    """Sums behind algorithms.views.Trace; added up over the engine calls of one round."""

    w: Tensor  # [epochs + 1, P]
    gradient: Tensor  # [epochs, P]
    reached: Tensor  # [epochs + 1]

    @classmethod
    def zeros(cls, epochs: int, like: Tensor) -> TraceSums:
        return cls(
            like.new_zeros(epochs + 1, like.shape[-1]),
            like.new_zeros(epochs, like.shape[-1]),
            like.new_zeros(epochs + 1),
        )

    def reach(self, epoch: int, w: Tensor) -> None:
        self.w[epoch] += w
        self.reached[epoch] += 1

    def means(self) -> Trace:
        """A device that finished epoch e has reached e + 1."""
        devices = self.reached.clamp(min=1)[:, None]
        return Trace(self.w / devices, self.gradient / devices[1:], self.reached)


@dataclass
class Run:
    """One device while it trains."""

    w: Vector
    received: Vector
    epochs: list[list[Tensor]]  # batches of each epoch
    seeds: list[int]  # of torch's generator in each epoch, for dropout
    augmentation: np.random.Generator | None
    m: Vector | None
    loss: Tensor
    units: Units
    steps: int = 0
    lr_sum: float = 0.0
    evaluations: int = 0
    rates: list[float] = field(default_factory=list)


class Eager:
    """Parameters are views into the device's row of w, updated in place."""

    name = "eager"

    def __init__(self, module: nn.Module, layout: Layout, batches: Batches) -> None:
        self.module = module
        self.layout = layout
        self.batches = batches
        self.params = trainable(module)
        self.training_step: Callable[[Batch, int], Tensor] = module.training_step  # type: ignore[assignment]

    def train(
        self, algo: Algorithm, fed: Fed, jobs: Jobs, dispatch: Sequence[int], trace: TraceSums | None = None
    ) -> tuple[Trained, list[int]]:
        """Trains every job; also returns each one's number of mini-batch gradients. Adds to the trace, device by
        device, so that its sums do not depend on how many are trained together."""
        need = algo.need
        w = self.layout.rows(jobs.start)
        runs = [
            self._begin(fed, client, dispatch[k], epochs, w[k], jobs.received[k])
            for k, (client, epochs) in enumerate(zip(jobs.client.tolist(), jobs.epochs.tolist(), strict=True))
        ]
        zeros = {name: torch.zeros_like(w) for name in sorted(need & {"last_gradient", "mean_gradient"})}
        self.module.train()
        with torch.random.fork_rng(devices=[]):
            for epoch in range(max(len(run.epochs) for run in runs)):
                rule = algo.local(jobs, w, epoch, fed)
                for k, run in enumerate(runs):
                    if epoch < len(run.epochs):
                        sums = {name: self.layout.views(value[k]) for name, value in zeros.items()}
                        if trace is not None:
                            trace.reach(epoch, w[k])
                            sums["epoch"] = self.layout.views(trace.gradient[epoch])
                        t = kernel.terms(rule, k, fed.lr, w.dtype, self.layout.views)
                        self._epoch(run, run.epochs[epoch], t, fed, sums)
        if trace is not None:
            for k, run in enumerate(runs):
                trace.reach(len(run.epochs), w[k])
        if "mean_gradient" in need:
            zeros["mean_gradient"] /= w.new_tensor([run.steps for run in runs])[:, None]
        found = {**zeros, **self._at_received(need, jobs, runs), **self._prototypes(need, jobs, w)}
        trained = Trained(
            end=w,
            steps=w.new_tensor([run.steps for run in runs]),
            units=w.new_tensor([run.units.total for run in runs]),
            lr_sum=w.new_tensor([run.lr_sum for run in runs]),
            rates=w.new_tensor([run.rates + [0.0] * (fed.epochs - len(run.rates)) for run in runs]),
            loss=torch.stack([run.loss / run.steps for run in runs]),
            **found,
        )
        return trained, [run.evaluations for run in runs]

    def tune(self, fed: Fed, w: Tensor, client: int, rule: LocalRule, epochs: int) -> Tensor:
        """The model w [P] after `epochs` of a device's data by one rule, on batches no dispatch sees."""
        rows = self.layout.rows(w[None])
        run = self._begin(fed, client, TUNING, epochs, rows[0], w)
        self.module.train()
        with torch.random.fork_rng(devices=[]):
            for batches in run.epochs:
                self._epoch(run, batches, kernel.terms(rule, 0, fed.lr, w.dtype, self.layout.views), fed, {})
        return rows[0]

    def _begin(self, fed: Fed, client: int, dispatch: int, epochs: int, w: Tensor, received: Tensor) -> Run:
        return Run(
            w=self.layout.views(w),
            received=self.layout.views(received),
            epochs=self.batches.epochs(client, dispatch, epochs),
            seeds=stream(self.batches.seed, "dropout", client, dispatch).integers(2**63 - 1, size=epochs).tolist(),
            augmentation=self.batches.augmentation(client, dispatch),
            m=self.layout.views(torch.zeros_like(w)) if fed.momentum else None,
            loss=w.new_zeros(()),
            units=Units(),
        )

    def _epoch(self, run: Run, batches: list[Tensor], t: kernel.Terms, fed: Fed, sums: dict[str, Vector]) -> None:
        self._bind(run.w)
        torch.manual_seed(run.seeds[len(run.rates)])
        run.rates.append(t.lr)
        for index in batches:
            batch = self.batches.load(index, run.augmentation)
            loss, g = self._gradient(batch, run.steps)
            if t.sam:
                before = [part.clone() for part in run.w]
                kernel.climb(run.w, g, t.sam)
                g = self._gradient(batch, run.steps)[1]
                torch._foreach_copy_(run.w, before)
            for name, total in sums.items():
                if name == "last_gradient":
                    torch._foreach_copy_(total, g)
                else:
                    torch._foreach_add_(total, g)
            kernel.step(run.w, g, run.m, run.received, t, fed.momentum, fed.decay)
            run.units.step(t, fed.momentum)
            run.loss += loss
            run.steps += 1
            run.lr_sum += t.lr
            run.evaluations += 2 if t.sam else 1

    def _bind(self, w: Vector) -> None:
        for p, view in zip(self.params, w, strict=True):
            p.data = view

    def _gradient(self, batch: Batch, index: int) -> tuple[Tensor, Vector]:
        loss = self.training_step(batch, index)
        if loss.dim():
            loss = loss.mean()
        g = torch.autograd.grad(loss, self.params, materialize_grads=True)
        return loss.detach(), _own(g)

    def _at_received(self, need: frozenset[str], jobs: Jobs, runs: list[Run]) -> dict[str, Tensor]:
        """Loss and full-batch gradient of each device at the model it received."""
        if not need & {"full_gradient", "start_loss"}:
            return {}
        self.module.eval()
        full, losses = torch.zeros_like(jobs.start), jobs.start.new_zeros(len(runs))
        for k, run in enumerate(runs):
            self._bind(self.layout.views(self.layout.rows(jobs.received[k : k + 1])[0]))
            whole = self.batches.whole(int(jobs.client[k]))
            samples = sum(len(index) for index in whole)
            for index in whole:
                loss, g = self._gradient(self.batches.load(index), 0)
                losses[k] += loss * (len(index) / samples)
                torch._foreach_add_(self.layout.views(full[k]), g, alpha=len(index) / samples)
            run.evaluations += self.batches.passes(int(jobs.client[k]))
        found = {"full_gradient": full, "start_loss": losses}
        return {name: value for name, value in found.items() if name in need}

    def fit_head(self, w: Tensor, features: Tensor, labels: Tensor, steps: int, lr: float) -> Tensor:
        """w with its head trained on (feature, label) pairs, full-batch, by the kernel's plain step."""
        w = w.clone()
        views = self.layout.views(w)
        self._bind(views)
        head = self.module.get_submodule(self.layout.head_name)
        inside = {id(p) for p in head.parameters()}
        params, parts = zip(
            *[(p, view) for p, view in zip(self.params, views, strict=True) if id(p) in inside], strict=True
        )
        t = kernel.Terms(lr=lr, scale=1.0, prox=0.0, drift=None, mask=None, sam=0.0)
        for _ in range(steps):
            loss = nn.functional.cross_entropy(head(features), labels)
            kernel.step(list(parts), list(torch.autograd.grad(loss, params)), None, list(parts), t, 0.0, 0.0)
        return w

    def _prototypes(self, need: frozenset[str], jobs: Jobs, w: Tensor) -> dict[str, Tensor]:
        """Class means of what enters the head, with the trained models."""
        if "prototypes" not in need:
            return {}
        self.module.eval()
        head = self.module.get_submodule(self.layout.head_name)
        seen: list[Tensor] = []
        hook = head.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
        sums, counts = [], []
        try:
            with torch.no_grad():
                for k in range(len(w)):
                    self._bind(self.layout.views(w[k]))
                    seen.clear()
                    labels = []
                    for index in self.batches.whole(int(jobs.client[k])):
                        x, y = self.batches.load(index)
                        self.module(x)
                        labels.append(nn.functional.one_hot(y, self.batches.classes).to(w.dtype))
                    one_hot, features = torch.cat(labels), torch.cat(seen).flatten(1)
                    counts.append(one_hot.sum(0))
                    sums.append(one_hot.T @ features / counts[-1].clamp(min=1)[:, None])
        finally:
            hook.remove()
        return {"prototypes": torch.stack(sums), "counts": torch.stack(counts)}


def _own(g: Sequence[Tensor]) -> Vector:
    """The kernel writes into g, and autograd may give two parameters one tensor, or one number seen many times."""
    seen: set[int] = set()
    parts = []
    for part in g:
        expanded = any(stride == 0 and size > 1 for stride, size in zip(part.stride(), part.shape, strict=True))
        shared = part.data_ptr() in seen or expanded
        seen.add(part.data_ptr())
        parts.append(part.clone(memory_format=torch.contiguous_format) if shared else part)
    return parts
