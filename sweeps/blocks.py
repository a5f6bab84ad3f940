"""What the ledger lacks as blocks of runs, and which comes first: by claims an hour. Imports neither torch nor Optuna.

leaderboards/lacking.py says what each claim needs; seconds are those of sweeps/estimate.py, or of finished runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sweeps.plan import PlannedRun, Sweep, merged

LIMIT = (
    1800.0  # seconds of a run at the paper's scale, by the estimate for the machine of COSTS; over it scale=cpu is run
)
STAY = 2.0  # times as many claims an hour: for less, a block that was begun is not left
Job = tuple[str, ...]  # the words of a run, seed included


@dataclass(frozen=True)
class NeededRun:
    """A run of a plan that a claim needs."""

    method: str
    dataset: str
    setting: str
    overrides: tuple[str, ...]  # at the paper's scale
    seeds: tuple[int, ...]
    there: Mapping[str, Sequence[int]]  # scale -> the seeds that are committed

    def at(self, scale: str) -> PlannedRun:
        return PlannedRun(self.method, self.dataset, self.setting, merged(self.overrides, f"scale={scale}"))

    def jobs(self, scale: str) -> dict[Job, bool]:
        """Its runs at a scale, and which of them are lacking."""
        there = {*self.there.get("paper", ()), *self.there.get(scale, ())}
        return {self.at(scale).words(seed): seed not in there for seed in self.seeds}


@dataclass(frozen=True)
class ClaimNeeds:
    """What a claim takes to be measured: every run of it, whether it is committed or not."""

    claim: str
    block: str  # paper, data set and setting: a column of a table
    runs: tuple[NeededRun, ...]
    obstacle: str = ""  # why no campaign can measure it

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ClaimNeeds:
        """From JSON."""
        words = ("overrides", "seeds")
        runs = (NeededRun(**run | {key: tuple(run[key]) for key in words}) for run in fields["runs"])
        return cls(**{**fields, "runs": tuple(runs)})


@dataclass(frozen=True, eq=False)
class Block:
    """Runs that together settle the claims of one column, at one scale."""

    name: str
    scale: str
    jobs: tuple[Job, ...]  # the committed ones too: a campaign that made them knows what they took
    seconds: tuple[float, ...]  # of each, estimated
    claims: Mapping[str, tuple[int, ...]]  # which of the jobs each claim lacks

    @cached_property
    def lacks(self) -> dict[str, frozenset[Job]]:
        return {claim: frozenset(self.jobs[i] for i in numbers) for claim, numbers in self.claims.items()}

    @cached_property
    def lacking(self) -> frozenset[Job]:
        return frozenset().union(*self.lacks.values())

    @cached_property
    def estimate(self) -> dict[Job, float]:
        return dict(zip(self.jobs, self.seconds, strict=True))

    def timed(self, took: Mapping[Job, float]) -> tuple[float, float]:
        """Seconds of its finished runs, and what was estimated for them."""
        jobs = [job for job in self.jobs if took.get(job)]
        return math.fsum(took[job] for job in jobs), math.fsum(self.estimate[job] for job in jobs)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Block:
        """From JSON."""
        return cls(**{**fields, "jobs": tuple(map(tuple, fields["jobs"])), "seconds": tuple(fields["seconds"])})


@dataclass(frozen=True)
class Campaign:
    """All that is lacking."""

    blocks: tuple[Block, ...]
    measured: int  # claims that lack nothing
    refused: Mapping[str, Mapping[str, Sequence[str]]]  # why a campaign cannot measure it -> the claims of each block

    @property
    def claims(self) -> int:
        """Those that are measured, or would be by all of its runs."""
        return self.measured + sum(len(block.claims) for block in self.blocks)


@dataclass(frozen=True)
class Lacking(Sweep):
    """The runs of a campaign, each once."""

    lacking: tuple[Job, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        return self.lacking


def sweep(blocks: Iterable[Block]) -> Lacking:
    """One study, however the ledger and the blocks change: a run that is finished is finished in all of them."""
    jobs = dict.fromkeys(job for block in blocks for job in block.jobs if job in block.lacking)
    return Lacking("campaign", "what the ledger lacks", (), lacking=tuple(jobs))


@dataclass(frozen=True)
class Prices:
    """What a run takes and whether it can be run, by its words."""

    seconds: Callable[[PlannedRun], float]  # on the machine of COSTS
    scaled: Callable[[PlannedRun], bool]  # does scale=cpu make it smaller?
    missing: Callable[[PlannedRun], str]  # how to get its data set, or ""
    speed: float = 1.0  # how much slower this machine is


def campaign(needs: Iterable[ClaimNeeds], prices: Prices) -> Campaign:
    columns: dict[str, list[ClaimNeeds]] = {}
    refused: dict[str, dict[str, list[str]]] = {}
    for claim in needs:
        if claim.obstacle:
            refused.setdefault(claim.obstacle, {}).setdefault(claim.block, []).append(claim.claim)
        else:
            columns.setdefault(claim.block, []).append(claim)
    blocks, measured = list[Block](), 0
    for name, claims in columns.items():
        block = _block(name, claims, prices)
        measured += len(claims) - len(block.claims)
        if not block.claims:
            continue
        sentences = [prices.missing(run.at(block.scale)) for claim in claims for run in claim.runs]
        if sentence := next(filter(None, sentences), ""):
            refused.setdefault(sentence, {})[name] = list(block.claims)
        else:
            blocks.append(block)
    return Campaign(tuple(blocks), measured, refused)


def _block(name: str, claims: Sequence[ClaimNeeds], prices: Prices) -> Block:
    """At one scale for all methods: by the longest run of the column, whether it is lacking or not."""
    runs = [run.at("paper") for claim in claims for run in claim.runs]
    short = all(prices.seconds(run) <= LIMIT for run in runs)  # a run nobody can price (NaN) is not
    scale = "paper" if short or not all(map(prices.scaled, runs)) else "cpu"
    seconds: dict[Job, float] = {}
    lacks: dict[str, list[Job]] = {}
    for claim in claims:
        for run in claim.runs:
            price = prices.seconds(run.at(scale)) * prices.speed
            for job, is_lacking in run.jobs(scale).items():
                seconds[job] = math.inf if math.isnan(price) else price
                if is_lacking:
                    lacks.setdefault(claim.claim, []).append(job)
    number = {job: i for i, job in enumerate(seconds)}
    numbers = {claim: tuple(dict.fromkeys(number[job] for job in jobs)) for claim, jobs in lacks.items()}
    return Block(name, scale, tuple(seconds), tuple(seconds.values()), numbers)


@dataclass(frozen=True)
class Done:
    """How far a campaign is."""

    took: Mapping[Job, float] = field(default_factory=dict)  # finished -> seconds
    failed: Collection[Job] = ()
    busy: Collection[Job] = ()

    def measured(self, campaign: Campaign) -> int:
        finished = self.took.keys()
        return campaign.measured + sum(jobs <= finished for b in campaign.blocks for jobs in b.lacks.values())


@dataclass(frozen=True)
class Step:
    """A block at its place in the order, with what those before it leave of it."""

    block: Block
    claims: Mapping[str, frozenset[Job]]  # its own that are open -> what each still lacks
    settles: int  # these, and those of other blocks that lack nothing else
    factor: float  # its finished runs took so many times what was estimated; all finished ones, if it has none
    begun: bool

    @cached_property
    def lacking(self) -> frozenset[Job]:
        return frozenset().union(*self.claims.values())

    @cached_property
    def seconds(self) -> float:
        return math.fsum(map(self.price, self.lacking))

    @property
    def rate(self) -> float:
        """Claims an hour."""
        return 3600 * self.settles / self.seconds

    def price(self, job: Job) -> float:
        return self.block.estimate[job] * self.factor

    @property
    def jobs(self) -> list[Job]:
        """Claim after claim, the one that lacks least first: wherever it is stopped, most are settled."""
        found: dict[Job, None] = {}
        claims = list(self.claims.values())
        while claims:
            least = min(claims, key=lambda jobs: math.fsum(self.price(job) for job in jobs if job not in found))
            claims.remove(least)
            found |= dict.fromkeys(job for job in self.block.jobs if job in least)
        return list(found)


def steps(blocks: Iterable[Block], done: Done) -> Iterator[Step]:
    """The blocks that are not settled, each time the one that settles most claims an hour; a run counts once. A claim
    that needs a run which failed is out."""
    finished, failed = frozenset(done.took), frozenset(done.failed)
    blocks, begun = list(blocks), {*done.took, *done.busy}
    timed = {block: block.timed(done.took) for block in blocks}
    every_took, every_estimate = (math.fsum(pair[i] for pair in timed.values()) for i in (0, 1))
    usual = every_took / every_estimate if every_took else 1.0
    left = {block: {claim: jobs for claim, jobs in block.lacks.items() if not jobs & failed} for block in blocks}
    while True:
        left = {
            block: {c: rest for c, jobs in claims.items() if (rest := jobs - finished)}
            for block, claims in left.items()
        }
        every = [rest for claims in left.values() for rest in claims.values()]
        if not every:
            return
        found = []
        for block, claims in left.items():
            if claims:
                lacking, (took, estimate) = frozenset().union(*claims.values()), timed[block]
                factor, is_begun = took / estimate if took else usual, not begun.isdisjoint(block.jobs)
                found.append(Step(block, claims, sum(rest <= lacking for rest in every), factor, is_begun))
        best = max(found, key=lambda step: step.rate * (STAY if step.begun else 1))
        yield best
        finished |= best.lacking


def next_job(blocks: Iterable[Block], done: Done, seconds: float = math.inf) -> tuple[Step, Job] | None:
    """The first that nobody is at and that ends within so many seconds."""
    for step in steps(blocks, done):
        for job in step.jobs:
            if job not in done.busy and step.price(job) <= seconds:
                return step, job
    return None
