"""How to re-run a claim: commands to paste, at the paper's scale, or why it cannot be run here."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from bench.errors import UserError, unknown
from leaderboards import plans, rivals
from leaderboards.ledger import Claim, load
from leaderboards.papers import special
from leaderboards.plans import SweepRun


@dataclass(frozen=True)
class Recipe:
    """Commands, or a reason; both where something nearby can be run."""

    claim: Claim
    scale: str | None  # of the commands; None: nothing is trained
    sweep: str | None  # runs all seeds of everything below, and what is finished already is not run again
    runs: tuple[str, ...]  # one seed of each
    seeds: tuple[int, ...]
    reason: str | None  # why it cannot be run here

    def text(self) -> str:
        lines = [f"{self.claim.id}: {self.claim.text}"]
        if self.reason is not None:
            lines.append(f"cannot run here: {self.reason}" + (". The nearest that can:" if self.runs else "."))
        if self.scale is None and self.runs:
            lines.append("scale      none: computed, nothing is trained")
        elif self.runs:
            lines.append(f"scale      {self.scale} (scale=cpu is smaller and can only show a direction)")
            lines.append(f"seeds      {', '.join(map(str, self.seeds))}")
        if self.sweep is not None:
            lines.append(f"all        {self.sweep}")
        lines += [
            f"{'one' if len(self.runs) == 1 else f'{i} of {len(self.runs)}':<11}{run}"
            for i, run in enumerate(self.runs, 1)
        ]
        return "\n".join(lines)


def find(name: str) -> Claim:
    by_id = {claim.id: claim for claim in load()}
    if name not in by_id:
        if name.count("/") < 2:
            raise UserError(f"There is no claim '{name}'; python -m leaderboards claims lists them all.")
        raise unknown("claim", name, by_id, "python -m leaderboards claims lists them all")
    return by_id[name]


def recipe(claim: Claim) -> Recipe:
    if claim.metric in special(claim.paper).exact:
        words = ["python", "-m", "leaderboards", "claims", "--paper", claim.paper, "--where", claim.where]
        return Recipe(claim, None, None, (shlex.join(words),), (), None)
    found = [place for cell in rivals.needs(claim) for place in plans.places(cell, claim.where) if place.counts]
    runs = tuple(dict.fromkeys(place.run.command(place.sweep.seeds[0]) for place in found))
    seeds = found[0].sweep.seeds if found else ()
    return Recipe(claim, "paper", _sweep(found), runs, seeds, special(claim.paper).obstacle(claim))


def _sweep(found: list[SweepRun]) -> str | None:
    """The sweep that runs all seeds, narrowed to what the claim needs."""
    if not found:
        return None
    name = found[0].sweep.name
    methods = dict.fromkeys(place.run.method for place in found if place.sweep.name == name)
    narrow = [] if any("," in method for method in methods) else [f"method={','.join(methods)}"]
    return shlex.join(["python", "-m", "sweeps", name, f"dataset={found[0].run.dataset}", *narrow])
