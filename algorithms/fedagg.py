"""Learning rates that keep devices near their mean path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State, Trained, Updates, Upload
from algorithms.ops import epoch_means, in_order, mean_path, one_of, path_change, tracking


@dataclass(frozen=True, kw_only=True)
class FedAgg(Algorithm):
    """Adaptive local rates: those that keep a device near the mean path of all devices.

    Yuan, Wang: FedAgg: Adaptive Federated Learning with Aggregated Gradients. arXiv 2303.15799, 2023.

    Deviations (the objective contains no loss; to the letter, a rate of 0 is its only fixed point):
    - `mean_field`: history (the last round's averages, moved to the new model; round 0 at the run's rate), prerun
      (FedAvg's with the same seeds), fixed_point (Alg. 1: the round is repeated, first at the run's rate, until phi1
      and phi2 both change by at most epsilon, as the text says, or J times; the last pass counts).
    - `phi1`: the devices' mean of the sum of an epoch's gradients (Eq. (14) holds for epochs of many steps) or of their
      mean (Eq. (11); S own steps then move S times as far). `update=aggregated`: an epoch is one step of Eq. (14).
    - Devices count once, in the epochs they reached; an epoch nobody reached keeps its means. Traffic counts the paths.
    - Rates are clamped (Prop. 3 claims 0 < eta < 1), and with `feedback` solved anew at each epoch (Alg. 2: once).
    """

    broadcast: ClassVar[tuple[str, ...]] = ("w", "phi1", "phi2", "known")
    plain_sgd = own_rate = True
    alpha: float = field(default=0.1, metadata={"above": 0, "max": 1})
    mean_field: str = "fixed_point"
    phi1: str = "mean"
    feedback: bool = True
    update: str = "own"
    eta_min: float | None = field(default=1e-4, metadata={"above": 0, "below": 1})
    eta_max: float | None = field(default=0.99, metadata={"above": 0, "below": 1})
    epsilon: float = field(default=1e-3, metadata={"above": 0})
    J: int = field(default=10, metadata={"min": 1})

    def __post_init__(self) -> None:
        one_of(self, mean_field=("history", "prerun", "fixed_point"))
        one_of(self, phi1=("sum", "mean"), update=("own", "aggregated"))
        in_order(self, "eta_min", "eta_max")

    @property
    def requires(self) -> frozenset[str]:
        return frozenset(("step_means",) * (self.phi1 == "mean") + ("trace",) * (self.mean_field != "prerun"))

    def init_server(self, w: Tensor, fed: Fed) -> State:
        phi1, phi2, zero = w.new_zeros(fed.epochs, len(w)), w.repeat(fed.epochs + 1, 1), w.new_zeros(())
        if prerun := self.mean_field == "prerun":
            phi1, phi2 = mean_path(phi1, phi2, fed.trace(0))
        state = {"known": zero + prerun, "rates": zero.repeat(fed.epochs), "clamps": zero}  # known: passes behind phi
        alg1 = dict.fromkeys(("passes", "phi1_change", "phi2_change") if self.mean_field == "fixed_point" else (), zero)
        return {"w": w, "phi1": phi1, "phi2": phi2, **state, **alg1}

    def extra_up(self, fed: Fed) -> int:  # rates; models between the epochs and the gradients of each
        return fed.epochs + ("trace" in self.requires) * (2 * fed.epochs - 1) * fed.layout.size

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        known, phi1, phi2 = (jobs.server[name] for name in ("known", "phi1", "phi2"))
        if not known.any():
            return LocalRule()
        start, first = (w, epoch) if self.feedback else (jobs.received, 0)
        t = jobs.version.tolist()  # all the same, unless uploads are lost
        rates = {v: tracking(phi1[k, first:], phi2[k, first:], self.alpha) for k, v in enumerate(t) if v not in t[:k]}
        lr = torch.stack([rates[v](row)[epoch - first] for v, row in zip(t, start, strict=True)])
        lr = torch.where(known > 0, lr.clamp(self.eta_min or -torch.inf, self.eta_max or torch.inf), fed.lr)
        if self.update == "own":
            return LocalRule(lr=lr)  # Alg. 2, l. 6
        drift = phi1[:, epoch] / jobs.steps_per_epoch[:, None] * (known > 0)[:, None]
        return LocalRule(lr=lr, scale=(known == 0).to(w.dtype), drift=drift)  # Eq. (14)

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        return Upload(trained.end - jobs.received, extra={"rates": trained.rates})

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        known, rates = server["known"] + 1, updates.extra["rates"]
        trace = updates.trace or fed.trace(min(int((updates.version + updates.staleness)[0]) + 1, fed.rounds - 1))
        phi1, phi2 = mean_path(server["phi1"], server["phi2"], trace)  # Eqs. (11)-(12)
        clamped = torch.isin(rates, rates.new_tensor([self.eta_min or torch.nan, self.eta_max or torch.nan])).sum()
        state = {"rates": epoch_means(rates, updates.epochs), "clamps": server["clamps"] + (known > 1) * clamped}
        if self.mean_field == "fixed_point":
            d1, d2 = path_change(phi1, server["phi1"]), path_change(phi2, server["phi2"])  # Alg. 1, l. 12-15
            state |= {k: v for k, v in (("passes", known), ("phi1_change", d1), ("phi2_change", d2)) if k in server}
            if known < self.J and not (known > 1 and max(d1, d2) <= self.epsilon):
                return {**server, **state, "phi1": phi1, "phi2": phi2, "known": known}
        w = server["w"] + updates.weight @ updates.delta  # Alg. 2, l. 9
        phi2 = phi2 if self.mean_field == "prerun" else phi2 - phi2[0] + w
        return {"w": w, "phi1": phi1, "phi2": phi2, "known": known * (self.mean_field != "fixed_point"), **state}

    def repeat_round(self, server: State, fed: Fed) -> bool:
        return self.mean_field == "fixed_point" and bool(server["known"])

    def report(self, server: State, fed: Fed) -> dict[str, float]:
        numbers = {name: float(value) for name, value in server.items() if not value.dim() and name != "known"}
        return numbers | {f"rate_{q}": float(r) for q, r in enumerate(server["rates"])}
