"""The papers of the ledger: claims/<paper>.csv each, what its protocol says of it, and what is special to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from bench.errors import UserError

if TYPE_CHECKING:
    from leaderboards.arithmetic import Book, Derivation
    from leaderboards.ledger import Claim
    from leaderboards.metrics import Metric
    from leaderboards.page.layout import TableLayout
    from leaderboards.plans import Cell, SweepRun

Contradiction = tuple[str, str, Callable[[], str]]  # where; what the paper says; what comes out


class LedgerError(UserError):
    """The claims are not what they should be; the sentence names the row."""


@dataclass(frozen=True)
class Paper:
    """claims/<key>.csv, with protocol=<key> and sweeps/<key>.py."""

    key: str
    name: str
    title: str
    venue: str
    own: tuple[str, ...]  # what it proposes, as its claims say it, * too; everything else is compared with the first

    def owns(self, method: str) -> bool:
        return any(fnmatchcase(method, pattern) for pattern in self.own)


@dataclass(frozen=True, kw_only=True)
class Special:
    """What a paper has that others have not, all of it optional: SPECIAL in papers/<paper>.py."""

    # its claims
    metrics: Mapping[str, Metric] = field(default_factory=dict)  # that it alone defines
    derivations: Mapping[str, Callable[[Claim, Book], Derivation | None]] = field(default_factory=dict)
    """How claims follow from others, by their metric or by where they stand."""
    exact: Mapping[str, Callable[[Claim], float | None]] = field(default_factory=dict)  # metric -> from our code alone
    audit: Sequence[Contradiction] = ()  # that no single claim shows
    # its runs
    canonical: Callable[[Sequence[str]], Sequence[str]] = lambda parts: parts  # a setting's parts, always written alike
    default_setting: str | None = None  # where a rival stands that is not printed for a claim's own setting
    obstacle: Callable[[Claim], str | None] = lambda claim: None  # why a claim cannot be run here
    target: Callable[[Claim], float | None] = lambda claim: None  # the accuracy a claim is about, if not its setting's
    readings: Mapping[str, Callable[[int, Cell], float]] = field(default_factory=dict)
    """Metric -> its number for a run that reached the target in this round."""
    unsaid: Mapping[str, str] = field(default_factory=dict)  # metric -> the other one that its words may mean
    operations: Callable[[Claim], float] = lambda claim: 1.0  # a printed second is so many of ours
    compared: Callable[[Claim], tuple[Cell, list[Cell]] | None] = lambda claim: None  # beside "a vs b"
    methods: Sequence[str] = ()  # among which its "best method" is
    controls: Callable[[Claim, SweepRun], bool] = lambda claim, at: False  # is this an equal-rate control of it?
    regression: Sequence[str] = ()  # claims whose first rounds `check --data` runs again
    # its page
    labels: Mapping[str, str] = field(default_factory=dict)  # of methods and data sets that have no class
    layouts: Mapping[str, TableLayout] = field(default_factory=dict)  # by where a table stands


@cache
def papers() -> dict[str, Paper]:
    """In alphabetical order."""
    found = (entry.name for entry in (files("leaderboards") / "claims").iterdir())
    return {name[:-4]: _read(name[:-4]) for name in sorted(found) if name.endswith(".csv")}


@cache
def special(paper: str) -> Special:
    if find_spec(f"{__name__}.{paper}") is None:
        return Special()
    found: Special = import_module(f"{__name__}.{paper}").SPECIAL
    return found


def _read(key: str) -> Paper:
    path = f"bench/conf/protocol/{key}.yaml"
    try:
        text = (files("bench") / "conf" / "protocol" / f"{key}.yaml").read_text(encoding="utf-8")
        content: dict[str, Any] = dict(yaml.safe_load(text) or {})
    except FileNotFoundError:
        raise LedgerError(f"claims/{key}.csv has no protocol: write {path}, or take the claims away.") from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError):
        raise LedgerError(f"{path} is not readable as a table of keys.") from None
    content["own"] = content.get("own") or content.get("methods")
    if missing := [word for word in ("paper", "title", "venue", "own") if not content.get(word)]:
        raise LedgerError(f"{path} does not say its {', '.join(missing)}, which the pages of a paper need.")
    name, title, venue = (str(content[word]) for word in ("paper", "title", "venue"))
    return Paper(key, name, title, venue, tuple(content["own"]))
