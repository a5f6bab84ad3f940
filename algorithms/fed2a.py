"""Semi-asynchronous averaging by freshness and by what the layers represent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Schedule, State, Updates
from algorithms.ops import one_of
from algorithms.representation import consistency, rdm


def plu_sends_deep(t: int, P: int, D: int) -> bool:
    """Sec. 3.3.1: all of the first period, then the last D rounds of each; t counts versions, from 0."""
    return t < P or t % P >= P - D


def time_weights(n: Tensor, staleness: Tensor, kind: str) -> Tensor:
    """Eq. (4), normalised, so that n_t and f(t) cancel: [K] from data sizes n [K] and staleness t - t_k [K]."""
    n, s = n.double(), staleness.double()
    f = {"exp": (math.e / 2) ** -s, "inv": 1 / (s + 1), "log": 1 / ((s + 1).log() + 1), "none": torch.ones_like(s)}
    return n * f[kind] / (n * f[kind]).sum()


@dataclass(frozen=True, kw_only=True)
class Fed2A(Algorithm):
    """Semi-asynchronous mean of models by layer: fresh ones, and layers that represent alike, count more.

    Liu, Chen, You: Fed2A: Federated Learning Mechanism in Asynchronous and Adaptive Modes. Electronics 11, 2022.

    Deviations: PLU goes by the version a device downloaded, or by the server's when it uploads (`plu`; D = P: off; a
    model of deep layers only then sends nothing in some rounds). t_k likewise (`t_k=upload` is for aggregation=cached:
    what has just arrived is fresh). A download replaces the deep layers that a device did not upload, or leaves them
    to it (`unsent`). n_k is the run's weight. tvw=none: RCE alone weighs by rc, neither (PLU alone) by n_k. A layer in
    which no sender has rc > 0 falls back to the other weight; one that nobody sent stays. Eq. (8) as 1 - cosine.
    """

    cacheable: ClassVar[bool] = True  # the staleness of a stored model is what the loop says
    K: int | None = field(default=None, metadata={"min": 1})  # None: the cohort
    P: int = field(default=10, metadata={"min": 1})
    D: int = field(default=8, metadata={"min": 1})
    plu: str = "download"
    unsent: str = "replaced"
    tvw: str = "inv"
    t_k: str = "download"
    rce: bool = True
    distance: str = "cosine"
    stimuli: str = "train"  # the paper: test

    def __post_init__(self) -> None:
        one_of(self, tvw=("exp", "inv", "log", "none"), distance=("cosine", "correlation", "euclidean"))
        one_of(self, stimuli=("train", "test"), unsent=("replaced", "kept"))
        one_of(self, plu=("download", "upload"), t_k=("download", "upload"))
        if self.D > self.P:
            raise ValueError(f"algo.D={self.D} of the algo.P={self.P} rounds of a period is not possible")

    @property
    def needs_classes(self) -> str:
        return "its stimuli are samples of each class, without which algo.rce=false does" if self.rce else ""

    @property
    def chooses_on_arrival(self) -> bool:
        return self.plu == "upload"

    @property
    def dates_on_arrival(self) -> bool:
        return self.t_k == "upload"

    @property
    def keeps_unsent(self) -> bool:
        return self.unsent == "kept"

    def schedule(self, fed: Fed) -> Schedule:
        return Schedule(fed.clients, self.K or fed.cohort)

    def sends(self, version: int, fed: Fed) -> Tensor:
        return fed.all_layers if plu_sends_deep(version, self.P, self.D) else ~fed.layout.deep

    def weights(self, w: Tensor, updates: Updates, fed: Fed) -> Tensor:
        """[K, L]; a column sums to one, or to zero where nobody sent the layer."""
        tw = time_weights(updates.weight, updates.staleness, self.tvw).to(w.dtype)  # Alg. 1, l. 4
        weight = tw[:, None] * updates.layers
        if self.rce and bool(updates.layers.any()):
            models = torch.cat([w[None], updates.model])  # the global model first
            rdms = (rdm(outputs, self.distance) for outputs in fed.layer_outputs(models, self.stimuli))
            rc = torch.stack([consistency(u[:1], u[1:]) for u in rdms], 1).to(w.dtype)  # Alg. 1, l. 7
            joint = weight * rc if self.tvw != "none" else updates.count[:, None] * updates.layers * rc  # Alg. 1, l. 8
            weight = torch.where(joint.sum(0) > 0, joint, weight)
        total = weight.sum(0)
        return weight / torch.where(total > 0, total, torch.ones_like(total))  # Alg. 1, l. 13

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        mean = torch.zeros_like(server["w"])
        for weight, model in zip(self.weights(server["w"], updates, fed), updates.model, strict=True):
            mean = mean.addcmul_(fed.layout.expand(weight), model)  # Alg. 1, l. 17
        return {**server, "w": torch.where(fed.layout.expand(updates.layers.any(0)), mean, server["w"])}
