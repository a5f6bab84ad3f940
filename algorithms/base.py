"""What a federated method is: a handful of pure functions on flat vectors; the loop owns all state and calls them.

Shapes: N devices, K jobs or uploads (one row each), P parameters, L layers. `delta = end - received`, always this sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from algorithms.views import Clients, Layout, Trace

State = dict[str, Tensor]
REFILL = ("aggregation", "at_once")  # when the place that an upload leaves is filled


@dataclass(frozen=True)
class Schedule:
    """There are `concurrency` places for devices at work; the server aggregates once `buffer` uploads have arrived. The
    place that an upload leaves is filled with the next aggregation, or at once: only then are so many at work all the
    time, and the buffer may be the larger of the two."""

    concurrency: int
    buffer: int
    refill: str = "aggregation"  # of REFILL

    @property
    def sync(self) -> bool:
        """The server waits for everybody who is at work."""
        return self.concurrency == self.buffer and not self.at_once

    @property
    def at_once(self) -> bool:
        """Whether a place is filled as soon as it is free."""
        return self.refill == "at_once"


@dataclass(frozen=True)
class LocalRule:
    """The terms of the one local step (bench/engine/kernel.py); a term that is exactly zero costs nothing.

    m <- momentum m + g(w + sam g/|g|) + decay w;   w <- w - lr mask (scale m + prox (w - received) + drift)
    """

    lr: Tensor | None = None  # [K]; None: the run's rate
    scale: float | Tensor = 1.0  # number or [K]
    prox: float | Tensor = 0.0  # number or [K]
    drift: Tensor | None = None  # [K, P]
    mask: Tensor | None = None  # [P] bool: the coordinates that are trained
    sam: float = 0.0


@dataclass(frozen=True)
class Adam:
    """Kingma, Ba: ICLR 2015, as in torch.optim: takes the place of plain steps along the rule's direction."""

    beta1: float
    beta2: float
    eps: float
    decoupled: bool = False  # AdamW (Loshchilov, Hutter: ICLR 2019): weight decay has no part in the gradient


def _absent(*args: object) -> NoReturn:
    raise RuntimeError("this federation has no data or network to answer that")


@dataclass(frozen=True)
class Fed:
    """The constants of a run, and services that a method may call."""

    clients: int
    cohort: int
    rounds: int
    epochs: int
    lr: float
    momentum: float
    decay: float
    samples: Tensor  # [N]
    layout: Layout
    trace: Callable[[int], Trace] = _absent  # of a version in a run of FedAvg with the same seeds
    # models [K, P], "train" | "test" -> [K, m, d] a layer
    layer_outputs: Callable[[Tensor, str], list[Tensor]] = _absent
    gamma: Callable[[int, int], float] = _absent  # how much faster than its uplink a device's link to another one is
    fit_head: Callable[[Tensor, Tensor, Tensor, int, float], Tensor] = _absent  # w, features, labels, steps, lr -> w
    optimizer: Adam | None = None  # of the devices; None: plain steps, SGD
    clip: float | None = None  # the norm to which a longer gradient is cut
    lr_decay: float = 1.0  # of the devices' rates, from one version to the next

    @property
    def all_layers(self) -> Tensor:
        return torch.ones(len(self.layout.layers), dtype=torch.bool, device=self.samples.device)


@dataclass(frozen=True)
class Jobs:
    """Devices about to train: everything here was fixed when they started."""

    client: Tensor  # [K] long
    version: Tensor  # [K] long: aggregations done when the model was downloaded
    start: Tensor  # [K, P]; differs from `received` after a lost upload and under `personal`
    received: Tensor  # [K, P]: the last model from the server
    samples: Tensor  # [K]
    epochs: Tensor  # [K] long: granted; fewer than fed.epochs = straggler
    steps_per_epoch: Tensor  # [K] long
    server: State  # what was sent at dispatch: broadcast tensors and the own row of unicast ones, [K, ...]
    memory: State  # this device's memory, [K, ...]
    mail: Tensor | None = None  # [K, P]: sum of the gradients read
    senders: Tensor | None = None  # [K]: how many


@dataclass(frozen=True)
class Trained:
    """What the engine found; the optional tensors exist when `requires` names them."""

    end: Tensor  # [K, P]
    steps: Tensor  # [K]
    effective_steps: Tensor  # [K]: FedNova's |a|_1 (momentum and prox included, scale and drift not)
    lr_sum: Tensor  # [K]
    rates: Tensor  # [K, epochs]: of each local epoch, 0 where it was not reached
    loss: Tensor  # [K]: mean over the steps
    last_gradient: Tensor | None = None  # [K, P], raw: before momentum, scale and drift
    mean_gradient: Tensor | None = None  # [K, P]
    full_gradient: Tensor | None = None  # [K, P], at `received`
    start_loss: Tensor | None = None  # [K], at `received`
    prototypes: Tensor | None = None  # [K, C, d]: class means of what enters the head, at `end`
    counts: Tensor | None = None  # [K, C]


@dataclass(frozen=True)
class Upload:
    delta: Tensor  # [K, P]
    extra: State = field(default_factory=dict)  # [K, ...]: sent beside the model
    memory: State = field(default_factory=dict)  # [K, ...]: written to the device's memory when the upload arrives
    gradient: Tensor | None = None  # [K, P]: what mail carries


@dataclass(frozen=True)
class Updates:
    """What the server aggregates, rows in client order; numbers in the model's dtype."""

    client: Tensor  # [K] long
    version: Tensor
    staleness: Tensor  # aggregations between download and use, 0 when fresh
    samples: Tensor
    count: Tensor  # how often the device was drawn
    epochs: Tensor
    steps: Tensor
    effective_steps: Tensor
    lr_sum: Tensor
    loss: Tensor
    layers: Tensor  # [K, L] bool: what was sent
    received: Tensor  # [K, P]
    delta: Tensor  # [K, P]: 0 in layers not sent
    base: Tensor  # [K, P]: received; the server's w in layers not sent
    weight: Tensor  # [K]: sums to one; proportional to count * samples, or to count
    extra: State = field(default_factory=dict)
    trace: Trace | None = None

    @cached_property
    def model(self) -> Tensor:
        """[K, P]: the devices' models; the server's w in layers not sent."""
        return self.base + self.delta


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """The defaults are FedAvg. Fields are the method's hyper-parameters, in its paper's symbols.

    The command line refuses numbers that are not finite, and those outside a field's bounds: metadata={"min": 0,
    "max": 1} includes them, "above" and "below" do not.
    """

    broadcast: ClassVar[tuple[str, ...]] = ("w",)  # server tensors that every device downloads
    unicast: ClassVar[tuple[str, ...]] = ()  # [N, ...] server tensors of which device i downloads row i
    mail: ClassVar[str | None] = None  # the unicast row [N] bool that names the recipients of its gradient
    personal: ClassVar[str] = "none"  # none | body | head | all: the part of w that stays on the device
    pooled: ClassVar[bool] = False  # there is one device, which holds all training data
    extra_vectors: ClassVar[
        tuple[str, ...]
    ] = ()  # [K, P] in Upload.extra, where extra_up has them: upload= acts on them
    retransmit: ClassVar[bool] = False
    cacheable: ClassVar[bool] = False  # aggregate() uses only delta, model, samples, weight, staleness
    plain_sgd: ClassVar[bool] = False  # its maths takes a local step to be the rate times what `local` says
    own_rate: ClassVar[bool] = False  # it works the devices' rates out itself

    @property
    def requires(self) -> frozenset[str]:
        """Fields of Trained (or "trace") that the engine has to fill; "step_means" makes the traced gradients means."""
        return frozenset()

    @property
    def needs_classes(self) -> str:
        """What it needs the samples' classes for, in words; nothing: its labels may be real numbers."""
        return ""

    def schedule(self, fed: Fed) -> Schedule:
        return Schedule(fed.cohort, fed.cohort)

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w}

    def init_client(self, w: Tensor, fed: Fed) -> State:
        """One device's memory before its first job."""
        return {}

    def sends(self, version: int, fed: Fed) -> Tensor:
        """[L] bool: the layers that a device which downloaded `version` will upload."""
        return fed.all_layers

    @property
    def chooses_on_arrival(self) -> bool:
        """Asynchronous schedules: `sends` goes by the version at an upload's arrival instead of the one downloaded."""
        return False

    @property
    def keeps_unsent(self) -> bool:
        """A device goes on from its own model in the layers that it did not send."""
        return False

    @property
    def dates_on_arrival(self) -> bool:
        """aggregation=cached: a stored model's staleness counts from its arrival instead of its download."""
        return False

    def extra_up(self, fed: Fed) -> int:
        """How many numbers travel up beside the model; down follows from broadcast and unicast."""
        return 0

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        """At the start of each local epoch; w [K, P] are the devices' current models."""
        return LocalRule()

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        return Upload(trained.end - jobs.received)

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        return {**server, "w": server["w"] + updates.weight @ updates.delta}

    def repeat_round(self, server: State, fed: Fed) -> bool:
        """Synchronous schedules: dispatch the same cohort with the same batches once more before the round counts."""
        return False

    def deployed(self, server: State, clients: Clients, fed: Fed) -> Tensor:
        """What is evaluated: one model [P], or [M, P] whose accuracies are averaged."""
        return server["w"]

    def personal_rule(self, fed: Fed) -> tuple[LocalRule, int] | None:
        """How a device fine-tunes (rule, epochs) before its personal accuracy is taken."""
        return None

    def report(self, server: State, fed: Fed) -> Mapping[str, float]:
        """Numbers of the method's own for metrics.csv and result.json."""
        return {}
