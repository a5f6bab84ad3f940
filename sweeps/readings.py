"""What a paper leaves open, or says in two ways: a finite list of readings, of which one counts. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import Any

from sweeps.plan import PlannedRun, merged

CALIBRATION = 100  # seeds from here on are for choosing, never for a verdict
CHOOSING = (CALIBRATION, CALIBRATION + 1, CALIBRATION + 2)


@dataclass(frozen=True)
class Reading:
    """One way to read it. Its words set every key that any reading of the same question sets."""

    name: str
    overrides: str
    source: str  # the paper's words, and the line of its text; "ours" where it has none
    why: str  # it is plausible

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(self.overrides.split())


@dataclass(frozen=True)
class Open:
    """A question that a paper leaves open, for some of its methods."""

    about: str
    methods: tuple[str, ...]  # as its claims name them, * too
    datasets: tuple[str, ...]  # the same
    readings: tuple[Reading, ...]
    chosen: str  # by name: what the methods run by default, and what alone may reproduce a claim
    sweep: str | None = None  # whose runs on calibration seeds decided that; None: nothing has been run to decide it
    scale: str = "paper"  # of those runs; what was decided at scale=cpu is run by default, and reproduces nothing
    stood: tuple[tuple[Open, str], ...] = ()  # how others were answered then, where that has changed

    def covers(self, method: str, dataset: str) -> bool:
        asked = ((method, self.methods), (dataset, self.datasets))
        return all(any(fnmatchcase(name, pattern) for pattern in patterns) for name, patterns in asked)

    @property
    def is_of_every_run(self) -> bool:
        return self.methods == ("*",)

    @property
    def is_decided(self) -> bool:
        """At the scale of the claims."""
        return self.sweep is not None and self.scale == "paper"

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(word.partition("=")[0] for reading in self.readings for word in reading.words)

    @property
    def words(self) -> str:
        """Of the reading that counts."""
        return next(reading.overrides for reading in self.readings if reading.name == self.chosen)

    def reading(self, overrides: Iterable[str]) -> str | None:
        """Of a run: the one that counts where none of the keys is set; None: a value that is no declared reading."""
        given = {word for word in overrides if word.partition("=")[0] in self.keys}
        if not given:
            return self.chosen
        return next((reading.name for reading in self.readings if given == {*reading.words}), None)


@cache
def questions(paper: str) -> tuple[Open, ...]:
    """OPEN in sweeps/<paper>.py."""
    found: tuple[Open, ...] = declared(paper, "OPEN")
    return found


def declared(paper: str, name: str) -> tuple[Any, ...]:
    """What sweeps/<paper>.py lists under a name."""
    if find_spec(f"sweeps.{paper}") is None:
        return ()
    found: tuple[Any, ...] = getattr(import_module(f"sweeps.{paper}"), name, ())
    return found


@cache
def open_for(paper: str, method: str, dataset: str) -> tuple[Open, ...]:
    """The questions about a method's runs on a data set."""
    return tuple(question for question in questions(paper) if question.covers(method, dataset))


Answers = tuple[str, ...]  # the name of a reading for each question


def combinations(asked: Iterable[Open]) -> tuple[Answers, ...]:
    """Every way to answer, the one that counts first."""
    asked = tuple(asked)
    first = tuple(question.chosen for question in asked)
    names = ([reading.name for reading in question.readings] for question in asked)
    return (first, *(answers for answers in product(*names) if answers != first))


def answered(paper: str, run: PlannedRun) -> Answers | None:
    """How a planned run reads it; None: in no declared way."""
    names = [question.reading(run.overrides) for question in open_for(paper, run.method, run.dataset)]
    return None if None in names else tuple(name for name in names if name is not None)


def each(runs: Iterable[PlannedRun], *about: Open) -> tuple[PlannedRun, ...]:
    """The runs in every reading of these questions, crossed where several concern a method, without repetition."""
    found: dict[PlannedRun, None] = {}
    for run in runs:
        asked = [question for question in about if question.covers(run.method, run.dataset)]
        for readings in product(*(question.readings for question in asked)):
            words = [
                word
                for question, reading in zip(asked, readings, strict=True)
                if question.reading(run.overrides) != reading.name  # a run that sets none of its keys answers as chosen
                for word in reading.words
            ]
            found[replace(run, overrides=merged(run.overrides, *words))] = None
    return tuple(found)


def asked_one_by_one(runs: Iterable[PlannedRun], *about: Open) -> tuple[PlannedRun, ...]:
    """The runs in every reading of one question after the other, of the methods that it concerns."""
    runs = tuple(runs)
    return tuple(
        dict.fromkeys(
            run
            for question in about
            for run in each((run for run in runs if question.covers(run.method, run.dataset)), question)
        )
    )
