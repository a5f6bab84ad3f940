"""A job: one dispatch of one device, from the download to the aggregation that uses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, State, Trained, Updates, Upload
from bench.simulation.memory import Memory


@dataclass
class Result:
    """What a trained job will upload."""

    delta: Tensor
    end: Tensor | None  # the model itself, for a device that has to go on from it
    extra: State
    mine: State
    gradient: Tensor | None
    steps: float
    effective_steps: float
    lr_sum: float
    loss: float
    finite: bool  # the whole of delta
    evaluations: int

    @property
    def not_finite(self) -> str | None:
        return not_finite(self.loss, self.finite)

    def state_dict(self) -> dict[str, Any]:
        """Rows are cloned: they are views, and with one a file would hold the whole batch. The device's memory has
        been written already."""
        extra = {name: value.clone() for name, value in self.extra.items()}
        return {**vars(self), "delta": self.delta.clone(), "end": None, "extra": extra, "mine": {}, "gradient": None}


def not_finite(loss: float, finite: bool) -> str | None:
    """What diverged in a training with this loss, whose update is finite or not."""
    if not math.isfinite(loss):
        return f"its loss is {loss}"
    return None if finite else "its update is not finite"


@dataclass(frozen=True)
class Learned:
    """What devices that were trained in one call will upload, a row each."""

    trained: Trained
    upload: Upload
    evaluations: list[int]

    @property
    def finite(self) -> list[bool]:
        """Whether the whole of an update is."""
        delta = self.upload.delta
        finite: list[bool] = delta.sum(1).isfinite().tolist()  # so are its terms then; a sum may overflow
        if all(finite):
            return finite
        return [fine or bool(delta[k].isfinite().all()) for k, fine in enumerate(finite)]

    def mine(self, algo: Algorithm) -> State:
        """What the devices will remember."""
        return self.upload.memory if algo.personal == "none" else {**self.upload.memory, "w": self.trained.end}


@dataclass
class Job:
    """Times, sizes and recipients are fixed at dispatch; mail and result come later."""

    client: int
    version: int
    dispatch: int
    count: int
    epochs: int
    steps_per_epoch: int
    layers: list[bool]
    recipients: list[int]
    bytes_up: int
    bytes_down: int
    dispatched: float
    begins: float  # download complete
    id: int = -1
    finish: float = math.nan
    arrival: float = math.nan  # or, if `lost`, when the device gives up waiting
    attempts: int = 1  # how often the upload is sent
    lost: bool = False
    unicast: State = field(default_factory=dict)
    start: Tensor | None = None  # its own model, where it goes on after a lost upload
    carried: list[float] = field(
        default_factory=lambda: [0.0, 0.0, 0.0]
    )  # steps, effective_steps, lr_sum since `received`
    started: bool = False
    mail: Tensor | None = None
    senders: int = 0
    result: Result | None = None

    def go_on(self, result: Result, dispatch: int, epochs: int, now: float) -> Job:
        """What follows when its upload was lost."""
        assert result.end is not None
        return replace(
            self,
            dispatch=dispatch,
            epochs=epochs,
            bytes_down=0,
            dispatched=now,
            begins=now,
            start=result.end.clone(),
            carried=[result.steps, result.effective_steps, result.lr_sum],
            started=False,
            mail=None,
            senders=0,
            result=None,
        )

    def state_dict(self, with_result: bool) -> dict[str, Any]:
        """A result in flight is recomputed after a resume; one that waits in the buffer is stored, because the
        device's memory it was computed from has been overwritten."""
        state = {name: value for name, value in vars(self).items() if name != "result"}
        return {**state, "result": self.result.state_dict() if with_result and self.result else None}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Job:
        result = state["result"]
        return cls(**{**state, "result": None if result is None else Result(**result)})


def _rows(tensors: Sequence[Tensor]) -> Tensor:
    """Stacked; without a copy where all rows are the same tensor, or all the rows of one."""
    first = tensors[0]
    if all(t is first for t in tensors):
        return first.expand(len(tensors), *first.shape)
    whole = first._base
    if whole is None or whole.shape != (len(tensors), *first.shape) or any(t._base is not whole for t in tensors):
        return torch.stack(list(tensors))
    order = [t.storage_offset() for t in tensors]
    step = whole.stride(0)
    begin = whole.storage_offset()
    return whole if order == list(range(begin, begin + step * len(order), step)) else torch.stack(list(tensors))


def stack(
    jobs: Sequence[Job], algo: Algorithm, fed: Fed, sent: dict[int, State], memory: Memory, personal: Tensor
) -> Jobs:
    """The inputs of several jobs as one batch; `personal` [P] is the part of w that stays on the device."""
    clients = [job.client for job in jobs]
    server = {name: _rows([sent[job.version][name] for job in jobs]) for name in algo.broadcast}
    server |= {name: torch.stack([job.unicast[name] for job in jobs]) for name in algo.unicast}
    mine = memory.read(clients)
    received = server["w"]
    mail = senders = None
    if algo.mail:
        nothing = torch.zeros_like(received[0])
        mail = torch.stack([nothing if job.mail is None else job.mail for job in jobs])
        senders = received.new_tensor([job.senders for job in jobs])

    def long(values: list[int]) -> Tensor:
        return torch.tensor(values, device=received.device)

    return Jobs(
        client=long(clients),
        version=long([job.version for job in jobs]),
        start=_resumed(jobs, starts(received, mine, algo, personal)),
        received=received,
        samples=fed.samples[long(clients)],
        epochs=long([job.epochs for job in jobs]),
        steps_per_epoch=long([job.steps_per_epoch for job in jobs]),
        server=server,
        memory=mine,
        mail=mail,
        senders=senders,
    )


def starts(received: Tensor, mine: State, algo: Algorithm, personal: Tensor) -> Tensor:
    """The models that devices begin with; `personal` [P] is the part of w that stays on a device."""
    return received if algo.personal == "none" else torch.where(personal, mine["w"], received)


def _resumed(jobs: Sequence[Job], start: Tensor) -> Tensor:
    if all(job.start is None for job in jobs):
        return start
    return torch.stack([row if job.start is None else job.start for job, row in zip(jobs, start, strict=True)])


def carry(jobs: Sequence[Job], trained: Trained) -> Trained:
    """A lost job and its continuation are one longer job: what it did counts from `received`."""
    if not any(job.start is not None for job in jobs):
        return trained
    steps, effective, lr_sum = trained.steps.new_tensor([job.carried for job in jobs]).T
    return replace(
        trained,
        steps=trained.steps + steps,
        effective_steps=trained.effective_steps + effective,
        lr_sum=trained.lr_sum + lr_sum,
    )


def store(jobs: Sequence[Job], algo: Algorithm, learned: Learned) -> None:
    """Gives each job its row of what was learned."""
    trained, upload, mine = learned.trained, learned.upload, learned.mine(algo)
    steps, effective, lr_sum, loss = (
        getattr(trained, name).tolist() for name in ("steps", "effective_steps", "lr_sum", "loss")
    )
    finite, deltas = learned.finite, upload.delta.unbind()
    for k, job in enumerate(jobs):
        job.result = Result(
            delta=deltas[k],
            end=trained.end[k] if job.lost else None,
            extra={name: value[k] for name, value in upload.extra.items()},
            mine={name: value[k] for name, value in mine.items()},
            gradient=None if upload.gradient is None else upload.gradient[k],
            steps=steps[k],
            effective_steps=effective[k],
            lr_sum=lr_sum[k],
            loss=loss[k],
            finite=finite[k],
            evaluations=learned.evaluations[k],
        )


def gather(
    jobs: Sequence[Job], w: Tensor, version: int, fed: Fed, sent: dict[int, State], shared: Tensor, weighting: str
) -> Updates:
    """What the server aggregates: the buffer's jobs, rows in client order."""
    results = [job.result for job in jobs if job.result is not None]
    assert len(results) == len(jobs)

    def numbers(values: Sequence[float]) -> Tensor:
        return w.new_tensor(list(values))

    client = torch.tensor([job.client for job in jobs], device=w.device)
    count, samples = numbers([job.count for job in jobs]), fed.samples[client]
    layers = torch.tensor([job.layers for job in jobs], device=w.device)
    received = _rows([sent[job.version]["w"] for job in jobs])
    delta, base = sent_only(w, received, _rows([result.delta for result in results]), layers, fed, shared)
    return Updates(
        client=client,
        version=numbers([job.version for job in jobs]),
        staleness=numbers([version - job.version for job in jobs]),
        samples=samples,
        count=count,
        epochs=numbers([job.epochs for job in jobs]),
        steps=numbers([result.steps for result in results]),
        effective_steps=numbers([result.effective_steps for result in results]),
        lr_sum=numbers([result.lr_sum for result in results]),
        loss=numbers([result.loss for result in results]),
        layers=layers,
        received=received,
        delta=delta,
        base=base,
        weight=weights(count, samples, weighting),
        extra={name: torch.stack([result.extra[name] for result in results]) for name in results[0].extra},
    )


def sent_only(
    w: Tensor, received: Tensor, delta: Tensor, layers: Tensor, fed: Fed, shared: Tensor
) -> tuple[Tensor, Tensor]:
    """delta and base of Updates: what was not sent, or never is (`shared` [P] is false), is as if unchanged."""
    if layers.all() and shared.all():
        return delta, received
    there = fed.layout.expand(layers) & shared
    return torch.where(there, delta, torch.zeros_like(delta)), torch.where(there, received, w)


def remember(cache: Memory, updates: Updates, fed: Fed) -> None:
    """aggregation=cached: these devices' models, in the layers they sent."""
    for k, client in enumerate(updates.client.tolist()):
        there = fed.layout.expand(updates.layers[k])
        model = torch.where(there, updates.model[k], cache.read([client])["w"][0])
        cache.write(client, {"w": model, "version": updates.version[k]})


def everyone(cache: Memory, w: Tensor, version: int, fed: Fed, weighting: str) -> Updates:
    """aggregation=cached: every device's last model, the initial one of those never heard of."""
    model, versions = cache.rows("w"), cache.rows("version")
    nothing, one = torch.zeros_like(fed.samples), torch.ones_like(fed.samples)
    return Updates(
        client=torch.arange(fed.clients, device=w.device),
        version=versions,
        staleness=version - versions,
        samples=fed.samples,
        count=one,
        epochs=nothing,
        steps=nothing,
        effective_steps=nothing,
        lr_sum=nothing,
        loss=nothing,
        layers=fed.all_layers.expand(fed.clients, -1),
        received=w.expand_as(model),
        delta=model - w,
        base=w.expand_as(model),
        weight=weights(one, fed.samples, weighting),
    )


def weights(count: Tensor, samples: Tensor, weighting: str) -> Tensor:
    raw = count * samples if weighting == "size" else count
    return raw / raw.sum()
