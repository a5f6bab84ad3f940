"""How cost and memory grow with the number of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from algorithms.base import Algorithm
from bench.output import pictures
from bench.speed.processes import Own
from bench.speed.variants import Remembers, auto, federated
from bench.speed.work import WORKLOADS, Data, Round, Workload

ROUNDS = 5
Growth = dict[str, dict[str, dict[str, float]]]  # kind -> clients -> figures


@dataclass(frozen=True)
class Kind:
    """Rounds of `drawn` devices, None: all there are; asynchronous ones are so many uploads, each aggregated."""

    drawn: int | None
    most: int = 1_000_000  # clients
    algo: Algorithm = field(default_factory=Algorithm)
    asynchronous: bool = False

    def clients(self) -> list[int]:
        sizes = (10**power for power in range(1, 7))
        return [size for size in sizes if (self.drawn or 0) <= size <= self.most]


KINDS = {
    "10 drawn a round": Kind(10),
    "1,000 drawn a round": Kind(1000),
    "10,000 at work, asynchronous": Kind(10_000, asynchronous=True),
    "all a round": Kind(None, 10_000),
    "all a round, each with a memory": Kind(None, 10_000, Remembers()),
}


def measure(kinds: Mapping[str, Kind] = KINDS, rounds: int = ROUNDS) -> Growth:
    """The least seconds of some rounds, each size and kind in a process of its own; prints them."""
    found: Growth = {}
    for name, kind in kinds.items():
        found[name] = {}
        for count in kind.clients():
            load = replace(WORKLOADS["digits_1000"], clients=count, epochs=1, cohort=kind.drawn)
            with closing(Own(_maker(load, kind))) as process:
                process.round()
                seconds, outside = min(process.round() for _ in range(rounds))
                row = {"seconds_per_client_step": seconds / load.client_steps, "peak_mb": process.peak_mb()}
                row["outside_training"] = (outside or 0.0) / seconds
            found[name][str(count)] = row
            print(
                f"{name:32} {count:9,} clients {1e6 * row['seconds_per_client_step']:8.1f} us a client-step "
                f"({100 * row['outside_training']:2.0f} % outside training) {row['peak_mb']:6.0f} MB",
                flush=True,
            )
    return found


def _maker(load: Workload, kind: Kind) -> Callable[[], Round]:
    return lambda: federated(load, Data(load), auto, kind.algo, asynchronous=kind.asynchronous)


def draw(found: Mapping[str, Mapping[str, Mapping[str, float]]], target: Path) -> None:
    figure, panels = pictures.pyplot().subplots(1, 2, figsize=(10, 4), layout="constrained")
    for kind, sizes in found.items():
        counts = [int(count) for count in sizes]
        panels[0].plot(counts, [1e6 * row["seconds_per_client_step"] for row in sizes.values()], "o-", label=kind)
        panels[1].plot(counts, [row["peak_mb"] for row in sizes.values()], "o-", label=kind)
    for panel, label in zip(panels, ("microseconds a client-step", "peak memory [MB]"), strict=True):
        panel.set(xscale="log", xlabel="clients", ylabel=label)
        panel.set_ylim(bottom=0)
    panels[0].legend()
    pictures.save(figure, target)
