"""What a claim is compared with: the rules of docs/ledger.md, "When an ordering shows" and "Seconds"."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from leaderboards.arithmetic import FEDLC_TARGETS
from leaderboards.ledger import Claim, load
from leaderboards.papers import papers
from leaderboards.plans import Cell, canonical, cell

FEDAVG = "fedavg"
VIRTUAL = ("virtual_seconds_to_target", "accuracy_at_time")


def is_own(claim: Claim) -> bool:
    return papers()[claim.paper].owns(claim.method)


def rival(claim: Claim) -> Claim | None:
    """The printed number that a claim's ordering is about; None if the paper prints none."""
    if " vs " in claim.method or claim.metric.startswith("fedlga_"):
        return None
    found = [other for name in _rivals(claim) for other in _siblings(claim, name)]
    if not found and claim.metric in VIRTUAL:
        found = [other for other in _column(claim) if other.method != claim.method]
    return found[0] if found else None


def _rivals(claim: Claim) -> Sequence[str]:
    return (FEDAVG,) if is_own(claim) else papers()[claim.paper].own


def _siblings(claim: Claim, method: str) -> list[Claim]:
    """The same number for another method: in the same setting, or else in the default one."""
    rows = [other for other in _table(claim) if other.method == method and other.id != claim.id]
    here = canonical(claim.paper, claim.setting)
    same = [other for other in rows if canonical(other.paper, other.setting) == here and other.setting == claim.setting]
    same = same or [other for other in rows if canonical(other.paper, other.setting) == here]
    if same or claim.paper != "fedlga":
        return same
    default = canonical("fedlga", "rho=0.5")
    return [other for other in rows if canonical(other.paper, other.setting) == default and claim.where == "Table VI"]


def _table(claim: Claim) -> list[Claim]:
    return [c for c in _by_place().get((claim.paper, claim.where), []) if (c.dataset, c.metric) == _about(claim)]


def _about(claim: Claim) -> tuple[str, str]:
    return claim.dataset, claim.metric


def _column(claim: Claim) -> list[Claim]:
    return [other for other in _table(claim) if other.setting == claim.setting]


@cache
def _by_place() -> dict[tuple[str, str], list[Claim]]:
    found: dict[tuple[str, str], list[Claim]] = {}
    for claim in load():
        found.setdefault((claim.paper, claim.where), []).append(claim)
    return found


def yardstick(claim: Claim) -> Claim | None:
    """The printed seconds of FedAvg in the same column, or of its slowest method; None if there are no seconds."""
    if "seconds" not in claim.metric:
        return None
    column = [other for other in _column(claim) if other.value is not None]
    fedavg = [other for other in column if other.method == FEDAVG]
    return next(iter(fedavg or sorted(column, key=lambda c: -c.number)), None)


def calibration(claim: Claim) -> Claim | None:
    """FedAvg's printed seconds in the setting of an accuracy "at t seconds"."""
    here = canonical(claim.paper, claim.setting)
    found = [
        other
        for other in load()
        if (other.paper, other.dataset, other.method) == (claim.paper, claim.dataset, FEDAVG)
        and other.metric == "virtual_seconds_to_target"
        and canonical(other.paper, other.setting) == here
    ]
    return found[0] if found else None


def target(claim: Claim) -> float | None:
    """The accuracy that a claim's own words ask for; None: that of the run."""
    if claim.paper == "fedlc" and claim.metric in FEDLC_TARGETS:
        return FEDLC_TARGETS[claim.metric][claim.dataset]
    return _stated(claim, "target")


def moment(claim: Claim) -> float | None:
    """The paper's seconds of an accuracy at a time."""
    return _stated(claim, "t")


def _stated(claim: Claim, key: str) -> float | None:
    parts = dict(part.split("=", 1) for part in claim.setting.split(";") if "=" in part)
    return float(parts[key].removesuffix("s")) if key in parts else None


def compared(claim: Claim) -> tuple[Cell, list[Cell]] | None:
    """The cells of a claim that is a comparison itself: its own, and those it is compared with (the best counts)."""

    def at(method: str, setting: str = claim.setting) -> Cell:
        return cell(claim.paper, method, claim.dataset, setting)

    if claim.metric.startswith("fedlga_"):
        return at("fedlga"), [at(claim.method)]
    if " vs K=" in claim.setting:
        own, _, _ = claim.setting.partition(" vs ")
        return at(claim.method, own), [at(claim.method, "rho=0.5")]
    if claim.metric == "time_reduction_at_least":
        return at(claim.method), [at("ce_afl")]
    if " vs " in claim.method:
        own, _, other = claim.method.partition(" vs ")
        if other == "existing":
            return None
        return at(own), [at(name) for name in (_baselines(claim) if other == "best baseline" else (other,))]
    return None


def _baselines(claim: Claim) -> Sequence[str]:
    """What the paper compares its own methods with on this data set."""
    found = [c.method for c in load() if (c.paper, c.dataset) == (claim.paper, claim.dataset) and not is_own(c)]
    return tuple(dict.fromkeys(name for name in found if name != "-" and " vs " not in name))


def needs(claim: Claim) -> list[Cell]:
    """Every cell that has to be run for a claim; none for what follows from models alone."""
    if (pair := compared(claim)) is not None:
        return [pair[0], *pair[1]]
    if claim.method == "-":
        return []
    if claim.method == "best method":
        return [cell(claim.paper, name, claim.dataset, claim.setting) for name in _fedlc_methods()]
    if " vs " in claim.method:
        return [cell(claim.paper, claim.method.partition(" vs ")[0], claim.dataset, claim.setting)]
    own = cell(claim.paper, claim.method, claim.dataset, claim.setting)
    other = yardstick(claim) or rival(claim)
    if other is None or other.id == claim.id:
        return [own]
    return [own, cell(other.paper, other.method, other.dataset, other.setting)]


def _fedlc_methods() -> tuple[str, ...]:
    return ("fedlc", "sc_fedlc", FEDAVG, "ce_afl", "afo")
