"""The mean path of devices through their local epochs (algorithms.views.Trace)."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from algorithms.views import Trace


@dataclass
class TraceSums:
    """Sums over devices; added up over the engine calls of one round."""

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

    def add(self, epoch: int, gradient: Tensor) -> None:
        self.gradient[epoch] += gradient

    def means(self) -> Trace:
        """A device that finished epoch e has reached e + 1."""
        devices = self.reached.clamp(min=1)[:, None]
        return Trace(self.w / devices, self.gradient / devices[1:], self.reached)


@dataclass
class TraceRows:
    """What a Sink was told, to be told again elsewhere."""

    reached: list[tuple[int, Tensor]] = field(default_factory=list)
    added: list[tuple[int, Tensor]] = field(default_factory=list)

    def reach(self, epoch: int, w: Tensor) -> None:
        self.reached.append((epoch, w.clone()))

    def add(self, epoch: int, gradient: Tensor) -> None:
        self.added.append((epoch, gradient.clone()))

    def tell(self, sink: Sink) -> None:
        for epoch, w in self.reached:
            sink.reach(epoch, w)
        for epoch, gradient in self.added:
            sink.add(epoch, gradient)


Sink = TraceSums | TraceRows  # takes the paths of devices; within each epoch in the devices' order
