"""Local epochs of one device after the other, for engines that differ in how they find a gradient."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from algorithms.base import Fed, LocalRule
from bench.engine import kernel
from bench.engine.base import Engine, Group
from bench.engine.kernel import Terms, Vector
from bench.learning.batches import Batch


class OneByOne(Engine):
    optimizers = True

    @abstractmethod
    def bind(self, w: Tensor) -> None:
        """Gradients are those of the model w [P] from now on, also when it is changed in place."""

    @abstractmethod
    def batch_gradient(self, batch: Batch, step: int) -> tuple[Tensor, Vector]:
        """The mean loss and its gradient, cut as by `cut`; the kernel may write into it."""

    @abstractmethod
    def cut(self, flat: Tensor) -> Vector:
        """[P] -> the views that the kernel works on"""

    def epoch(self, group: Group, epoch: int, rule: LocalRule, fed: Fed) -> None:
        for k in group.active(epoch):
            terms = kernel.terms(rule, k, fed.lr, group.w.dtype, self.cut)
            try:
                self.device(group, k, epoch, terms, fed)
            except Exception as error:
                numbers = f"lr={terms.lr:g} scale={terms.scale:g} prox={terms.prox:g} sam={terms.sam:g}"
                error.add_note(f"Client {group.clients[k]}, dispatch {group.dispatch[k]}, epoch {epoch}: {numbers}")
                raise

    def device(self, group: Group, k: int, epoch: int, t: Terms, fed: Fed) -> None:
        w, received = self.cut(group.w[k]), self.cut(group.received[k])
        m = None if group.m is None else self.cut(group.m[k])
        sums = {name: self.cut(value[k]) for name, value in group.sums.items()}
        self.bind(group.w[k])
        first, moments = group.taken(k, epoch), None
        if fed.optimizer is not None and group.moments is not None:
            mean, square = (self.cut(part) for part in group.moments[:, k])
            moments = kernel.Moments(fed.optimizer, mean, square, first)
        for step, index in enumerate(group.batches[k][epoch], first):
            batch = self.batches.load(index, group.augmentation[k])
            loss, g = self.batch_gradient(batch, step)
            if t.sam:
                before = [part.clone() for part in w]
                kernel.climb(w, g, t.sam)
                g = self.batch_gradient(batch, step)[1]
                torch._foreach_copy_(w, before)
            kernel.add_up(sums, g)
            kernel.step(w, g, m, received, t, fed.momentum, fed.decay, moments, fed.clip)
            group.loss[k] += loss
            group.steps.add(1)
