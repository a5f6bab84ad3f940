"""What a claim is compared with: the rules of docs/ledger.md, "When an ordering shows" and "Seconds"."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from leaderboards.ledger import VERSUS, Claim, load
from leaderboards.papers import papers, special
from leaderboards.plans import Cell, canonical, cell_of

FEDAVG, BEST = "fedavg", "best baseline"
VIRTUAL = ("virtual_seconds_to_target", "accuracy_at_time")


def is_own(claim: Claim) -> bool:
    return papers()[claim.paper].owns(claim.method)


def rival(claim: Claim) -> Claim | None:
    """The printed number that a claim's ordering is about; None if the paper prints none."""
    if VERSUS in claim.method or claim.definition.comparison is not None:
        return None
    names = (FEDAVG,) if is_own(claim) else papers()[claim.paper].own
    found = [other for name in names for other in _siblings(claim, name)]
    if not found and claim.metric in VIRTUAL:
        found = [other for other in _column(claim) if other.method != claim.method]
    return found[0] if found else None


def of_fedavg(claim: Claim) -> Claim | None:
    """The same number as FedAvg's, or None."""
    return next(iter(_siblings(claim, FEDAVG)), None)


def _siblings(claim: Claim, method: str) -> list[Claim]:
    """The same number for another method: in the same setting, or else in the default one."""
    rows = [other for other in _table(claim) if other.method == method and other.id != claim.id]
    default = special(claim.paper).default_setting
    same = [other for other in rows if other.setting == claim.setting]
    return same or _set_to(claim.setting, rows) or ([] if default is None else _set_to(default, rows))


def _set_to(setting: str, rows: Sequence[Claim]) -> list[Claim]:
    return [row for row in rows if canonical(row.paper, row.setting) == canonical(row.paper, setting)]


def _table(claim: Claim) -> list[Claim]:
    return _like(claim.paper, claim.where, claim.dataset, claim.metric)


def _column(claim: Claim) -> list[Claim]:
    return [other for other in _table(claim) if other.setting == claim.setting]


@cache
def _like(*about: str) -> list[Claim]:
    return [claim for claim in load() if (claim.paper, claim.where, claim.dataset, claim.metric) == about]


def yardstick(claim: Claim) -> Claim | None:
    """The printed seconds of FedAvg in the same column, or of its slowest method; None if there are no seconds."""
    if "seconds" not in claim.metric:
        return None
    column = [other for other in _column(claim) if other.value is not None]
    fedavg = [other for other in column if other.method == FEDAVG]
    return next(iter(fedavg or sorted(column, key=lambda c: -c.number)), None)


def is_yardstick(claim: Claim) -> bool:
    stick = yardstick(claim)
    return stick is not None and stick.id == claim.id


def can_run(claim: Claim) -> bool:
    return special(claim.paper).obstacle(claim) is None and not is_yardstick(claim)


def operations(claim: Claim) -> float:
    """What our seconds are multiplied by where a paper prints those of an operation, of which a step has several."""
    return special(claim.paper).operations(claim) if "seconds" in claim.metric else 1.0


def calibration(claim: Claim) -> Claim | None:
    """FedAvg's printed seconds in the setting of an accuracy "at t seconds"."""
    wanted = claim.paper, claim.dataset, FEDAVG, "virtual_seconds_to_target"
    found = [other for other in load() if (other.paper, other.dataset, other.method, other.metric) == wanted]
    return next(iter(_set_to(claim.setting, found)), None)


def target(claim: Claim) -> float | None:
    """The accuracy that a claim's own words ask for; None: that of the run."""
    found = special(claim.paper).target(claim)
    return _stated(claim, "target") if found is None else found


def moment(claim: Claim) -> float | None:
    """The paper's seconds of an accuracy at a time."""
    return _stated(claim, "t")


def _stated(claim: Claim, key: str) -> float | None:
    return float(claim.stated[key].removesuffix("s")) if key in claim.stated else None


def compared(claim: Claim) -> tuple[Cell, list[Cell]] | None:
    """The cells of a claim that is a comparison itself: its own, and those it is compared with (the best counts)."""
    if (found := special(claim.paper).compared(claim)) is not None:
        return found
    if claim.definition.comparison is None:
        return None
    own, versus, other = claim.method.partition(VERSUS)
    if versus:
        return cell_of(claim, own), [cell_of(claim, name) for name in (baselines(claim) if other == BEST else (other,))]
    own, versus, other = claim.setting.partition(VERSUS)
    return (cell_of(claim, setting=own), [cell_of(claim, setting=_changed(own, other))]) if versus else None


def _changed(setting: str, part: str) -> str:
    """With another value of one key."""
    key = part.partition("=")[0]
    return ";".join(part if old.partition("=")[0] == key else old for old in setting.split(";"))


def baselines(claim: Claim) -> Sequence[str]:
    """What the paper compares its own methods with on this data set."""
    return _baselines(claim.paper, claim.dataset)


@cache
def _baselines(paper: str, dataset: str) -> Sequence[str]:
    found = [c.method for c in load() if (c.paper, c.dataset) == (paper, dataset) and not is_own(c)]
    return tuple(dict.fromkeys(name for name in found if name != "-" and VERSUS not in name))


def needs(claim: Claim) -> list[Cell]:
    """Every cell that has to be run for a claim; none for what follows from models alone."""
    if (pair := compared(claim)) is not None:
        return [pair[0], *pair[1]]
    if claim.method == "-":
        return []
    if claim.method == "best method":
        return [cell_of(claim, name) for name in special(claim.paper).methods]
    others = [yardstick(claim) or rival(claim), calibration(claim) if claim.metric == "accuracy_at_time" else None]
    own = cell_of(claim, claim.method.partition(VERSUS)[0])
    return list(dict.fromkeys([own, *(cell_of(other) for other in others if other is not None)]))
