"""Local gradient approximation for devices that could not finish."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, State, Trained, Updates, Upload
from algorithms.ops import one_of


def approximate(delta: Tensor, g: Tensor, gap: Tensor, scale: float, product: str = "outer") -> Tensor:
    """delta + scale * G gap: Eqs. (5)-(6) for one device, linear in P; gap = w_hat - w_{i,E_i}, G as `product` says."""
    if product == "diagonal":
        return delta + scale * g * g * gap
    length = torch.dot(g, g) if product == "normalised" and g.any() else 1
    return delta + scale * torch.dot(g, gap) / length * g


@dataclass(frozen=True, kw_only=True)
class FedLGA(Algorithm):
    """Local gradient approximation: the server extends the updates of devices that could not finish.

    Li, Qu, Tang, Lu: FedLGA: Toward System-Heterogeneity of Federated Learning via Local Gradient
    Approximation. IEEE Transactions on Cybernetics, 2023 (arXiv 2112.11989).

    Deviations (readings of what the paper leaves open):
    - `gradient`: the paper's g_i is the mean gradient of the epochs that did not happen. `update` takes that of those
      that did, -Delta_i / sum of the rates; `gap` the one that leads from w_i to w_hat; `last` its last one, sent.
    - `scale`: the paper's units and signs do not agree. A number, "eta_l" or "-eta_l"; +1 is the paper to the letter,
      a negative one stretches incomplete updates. `times`: it counts once, once a missing epoch, or tau_i times.
    - `product`: g g' (outer), its diagonal (as DC-ASGD, its [55]), or g g' / |g|^2 (normalised: without a unit).
    - A round in which nobody finished has no w_hat: the updates are used as they are, and the round is counted.
    - `gamma`: the local rate decays by (1 - gamma) a round (Remark 2).
    """

    extra_vectors = ("gradient",)
    plain_sgd = True
    eta_g: float = field(default=1.0, metadata={"above": 0})
    scale: float | str = -1.0
    gamma: float = field(default=0.0, metadata={"min": 0, "below": 1})
    gradient: str = "last"
    product: str = "outer"
    times: str = "once"

    def __post_init__(self) -> None:
        one_of(self, gradient=("update", "last", "gap"), times=("once", "missing", "tau"))
        one_of(self, product=("outer", "diagonal", "normalised"))
        if isinstance(self.scale, str) and self.scale not in ("eta_l", "-eta_l"):
            raise ValueError(f"algo.scale is a number, eta_l or -eta_l, not {self.scale!r}")

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"last_gradient"}) if self.gradient == "last" else frozenset()

    def extra_up(self, fed: Fed) -> int:
        return fed.layout.size if self.gradient == "last" else 0

    def init_server(self, w: Tensor, fed: Fed) -> State:
        return {"w": w, "nobody_finished": torch.zeros((), dtype=w.dtype, device=w.device)}

    def _rate(self, version: Tensor, fed: Fed) -> Tensor:
        return fed.lr * (1 - self.gamma) ** version.to(fed.samples.dtype)

    def local(self, jobs: Jobs, w: Tensor, epoch: int, fed: Fed) -> LocalRule:
        return LocalRule(lr=self._rate(jobs.version, fed)) if self.gamma else LocalRule()

    def upload(self, jobs: Jobs, trained: Trained, fed: Fed) -> Upload:
        extra = {} if trained.last_gradient is None else {"gradient": trained.last_gradient}
        return Upload(trained.end - jobs.received, extra=extra)

    def aggregate(self, server: State, updates: Updates, fed: Fed) -> State:
        tau = fed.epochs - updates.epochs + 1  # Alg. 1, l. 6
        complete, delta = (tau <= 1).to(updates.weight.dtype) * updates.weight, updates.delta.clone()
        if complete.sum() > 0:
            w_hat = server["w"] + complete @ updates.delta / complete.sum()  # Alg. 2, l. 8
            scales = self._scales(updates, tau, fed)
            for k in (tau > 1).nonzero()[:, 0].tolist():
                gap = w_hat - updates.model[k]
                g = self._gradient(updates, k, gap, tau[k] - 1)
                delta[k] = approximate(updates.delta[k], g, gap, float(scales[k]), self.product)  # Alg. 2, l. 12
        w = server["w"] + self.eta_g * (updates.weight @ delta)  # Eq. (7)
        return {"w": w, "nobody_finished": server["nobody_finished"] + (complete.sum() == 0)}

    def _scales(self, updates: Updates, tau: Tensor, fed: Fed) -> Tensor:
        rate, once = self._rate(updates.version, fed), torch.ones_like(tau)
        scale = {"eta_l": rate, "-eta_l": -rate}[self.scale] if isinstance(self.scale, str) else self.scale
        return {"once": once, "missing": tau - 1, "tau": tau}[self.times].double() * scale

    def _gradient(self, updates: Updates, k: int, gap: Tensor, missing: Tensor) -> Tensor:
        if self.gradient == "last":
            return updates.extra["gradient"][k]
        if self.gradient == "gap":
            return -gap / (missing * updates.lr_sum[k] / updates.epochs[k])
        return -updates.delta[k] / updates.lr_sum[k]

    def report(self, server: State, fed: Fed) -> dict[str, float]:
        return {"nobody_finished": float(server["nobody_finished"])}
