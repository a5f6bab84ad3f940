"""Asynchronous learning in which devices send each other their gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, Schedule, State, Trained, Updates, Upload
from algorithms.localcol import ask, clamped, measured, theorem1
from algorithms.ops import in_order, one_of


@dataclass(frozen=True, kw_only=True)
class FedLC(Algorithm):
    """Local collaboration: asynchronous learning in which devices send each other their gradients.

    Xu, Ma, Xu, Chen, Liu, Xue: FedLC: Accelerating Asynchronous Federated Learning in Edge Computing. IEEE TMC, 2024.

    Deviations: with Eq. (40)'s k nobody is ever chosen; with the listing's (`localcol_k`) devices of similar gradient
    norm are, by index (`links`: gamma > 1 first) up to the budgets (C_i/c, B_j/b; ours), whatever their data. Theorem
    1's rate is clamped to [eta_min, eta_max] times the run's (None: not), and that of each of several local steps
    (`eta_of=dispatch`: of all together), whose mean "the gradient" is. Eq. (4) weighs by d_i/D whatever `weighting`
    says; with a buffer larger than one, all are added before rows and rates are worked out.
    """

    unicast: ClassVar[tuple[str, ...]] = ("eta", "V")
    mail: ClassVar[str | None] = "V"  # V_i, column i of M: who asked for the gradient of i
    plain_sgd = own_rate = True
    compute_budget: float = field(default=5.0, metadata={"min": 0})
    link_budget: float = field(default=5.0, metadata={"min": 0})
    eta_min: float | None = field(default=0.1, metadata={"above": 0})
    eta_max: float | None = field(default=10.0, metadata={"above": 0})
    eta_of: str = "step"
    localcol_k: str = "listing"
    localcol_order: str = "index"

    def __post_init__(self) -> None:
        one_of(self, eta_of=("step", "dispatch"), localcol_k=("listing", "eq40"), localcol_order=("index", "links"))
        in_order(self, "eta_min", "eta_max")

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"mean_gradient", "start_loss"})

    def schedule(self, fed: Fed) -> Schedule:
        return Schedule(fed.clients, 1)

    def init_server(self, w: Tensor, fed: Fed) -> State:
        """l, beta: -1 = not known yet; t: uploads by device; rates: sum of those applied; clamped: [below, above]."""
        unknown, nothing = w.new_full((fed.clients,), -1.0), w.new_zeros(fed.clients)
        M = w.new_zeros(fed.clients, fed.clients, dtype=torch.bool)
        known = {"l": unknown, "beta": unknown, "t": nothing, "M": M, "V": M.T, "eta": nothing + fed.lr}
        return {"w": w, **known, "rates": w.new_zeros(()), "clamped": w.new_zeros(2)}

    def init_client(self, w: Tensor, fed: Fed) -> State:
        return {"model": w, "loss": w.new_zeros(()), "t": w.new_zeros(())}  # last one received, its loss, t_i

    def extra_up(self, fed: Fed) -> int:
        return 2

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        assert jobs.mail is not None and jobs.senders is not None
        a, eta = 1 / (jobs.senders + 1), jobs.server["eta"]  # Eq. (5)
        lr = eta if self.eta_of == "step" else eta / (jobs.epochs * jobs.steps_per_epoch)
        return LocalRule(lr=lr, scale=a, drift=a[:, None] * jobs.mail)

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        g, loss = trained.mean_gradient, trained.start_loss
        assert g is not None and loss is not None
        return Upload(trained.end - jobs.received, *measured(g, loss, jobs.received, jobs.memory), gradient=g)

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        new = {name: server[name].clone() for name in ("l", "beta", "t", "M", "eta", "clamped")}
        D, i = fed.samples.sum(), updates.client
        new["w"] = server["w"] + (updates.count * updates.samples / D) @ updates.delta  # Eq. (4)
        new["rates"] = server["rates"] + (updates.lr_sum / updates.steps).sum()
        new["t"][i] += 1
        for name, value in updates.extra.items():
            new[name][i] = torch.where(value < 0, new[name][i], value)  # Alg. 1, l. 13
        for device in i.tolist():
            new["eta"][device] = self._rate(device, new, fed)
        return {**server, **new, "V": new["M"].T}

    def _rate(self, i: int, new: State, fed: Fed) -> Tensor | float:
        """Writes row i of M; the run's rate until all l and beta are known."""
        if bool((new["l"] < 0).any() or (new["beta"] < 0).any()):
            return fed.lr
        M, l = new["M"], new["l"].double()  # noqa: E741
        M[i] = ask(i, M, l, self.compute_budget, self.link_budget, self.localcol_k, self.localcol_order, fed.gamma)
        rate, beyond = clamped(theorem1(i, M[i], l, new["beta"], fed.samples), self.eta_min, self.eta_max, fed.lr)
        new["clamped"] += beyond
        return rate

    def report(self, server: State, fed: Fed) -> dict[str, float]:
        rate, demands = server["rates"] / server["t"].sum().clamp(min=1), server["M"].sum() / fed.clients
        clamped = dict(zip(("clamped_low", "clamped_high"), server["clamped"].tolist(), strict=True))
        return {"rate_mean": float(rate), "demands_mean": float(demands), **clamped}
