"""Which finished trials were run by other code than is here now: of their method, or at another revision."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from optuna.trial import FrozenTrial

from bench.output.facts import git_revision
from sweeps.plan import pairs
from sweeps.queue import CODE, RESULT, TrialQueue, words_of


@cache
def code_of(algo: str) -> str | None:
    """A digest of the files that the method's class and its parents stand in; None: there is no such method."""
    from algorithms.base import Algorithm
    from bench import trust
    from bench.prepare import registry

    if (own := trust.split(algo)) is not None:
        files = {own[0]}
    elif (cls := registry.classes("algo").get(algo)) is not None:
        parents = [parent for parent in cls.__mro__ if issubclass(parent, Algorithm) and parent is not Algorithm]
        files = {Path(inspect.getfile(parent)) for parent in parents}
    else:
        return None
    try:
        return sha256(b"\0".join(path.read_bytes() for path in sorted(files))).hexdigest()
    except OSError:
        return None


@dataclass(frozen=True)
class Stale:
    """The finished trials that may not be what would come out now."""

    changed: tuple[tuple[int, str], ...]  # trial and method, whose code is another
    unknown: tuple[int, ...]  # of an older database, which does not say
    revisions: tuple[str, ...]  # of each trial of another one

    @property
    def trials(self) -> list[int]:
        return [*(number for number, _ in self.changed), *self.unknown]

    def text(self) -> str:
        """To follow the number of finished runs."""
        parts = []
        if self.changed:
            parts.append(f"{len(self.changed)} of them with other code of {_listed(algo for _, algo in self.changed)}")
        if self.unknown:
            parts.append(f"{len(self.unknown)} of them by code that is not known")
        if self.revisions:
            parts.append(f"{len(self.revisions)} of them at revision {_listed(r[:12] for r in self.revisions)}")
        if self.trials:
            parts[-1] += f"; --rerun runs {len(self.trials)} again"
        return "".join(f", {part}" for part in parts)


def stale(queue: TrialQueue) -> Stale:
    changed, unknown, revisions = list[tuple[int, str]](), list[int](), list[str]()
    now = git_revision()
    for trial in queue.finished():
        algo = pairs(words_of(trial))["algo"]
        if (then := trial.user_attrs.get(CODE)) is None:
            unknown.append(trial.number)
        elif then != code_of(algo):
            changed.append((trial.number, algo))
        if now is not None and (revision := _revision(trial)) not in (None, now):
            revisions.append(str(revision))
    return Stale(tuple(changed), tuple(unknown), tuple(revisions))


def _revision(trial: FrozenTrial) -> str | None:
    found = trial.user_attrs.get(RESULT, {}).get("git_revision")
    return None if found is None else str(found)


def _listed(names: Iterable[str]) -> str:
    unique = sorted(set(names))
    return ", ".join([*unique[:3], *([f"{len(unique) - 3} more"] if len(unique) > 3 else [])])
