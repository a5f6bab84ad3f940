"""How cost and memory grow with the number of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from algorithms.base import Algorithm
from bench.output import pictures
from bench.speed.processes import Own
from bench.speed.variants import Remembers, auto, federated
from bench.speed.work import WORKLOADS, Data, Round, Workload

CLIENTS = (10, 100, 1000, 10_000)
ROUNDS = 5
DRAWN = 10
Growth = dict[str, dict[str, dict[str, float]]]  # kind -> clients -> figures
KINDS: dict[str, tuple[int | None, Algorithm]] = {
    f"{DRAWN} drawn a round": (DRAWN, Algorithm()),
    "all a round": (None, Algorithm()),
    "all a round, each with a memory": (None, Remembers()),
}


def measure(clients: tuple[int, ...] = CLIENTS, rounds: int = ROUNDS) -> Growth:
    """The least seconds of some rounds, each size and kind in a process of its own; prints them."""
    found: Growth = {}
    for kind, (cohort, algo) in KINDS.items():
        found[kind] = {}
        for count in clients:
            load = replace(WORKLOADS["digits_1000"], clients=count, epochs=1, cohort=cohort)
            with closing(Own(_maker(load, algo))) as process:
                seconds = min(process.round()[0] for _ in range(1 + rounds))
                row = {"seconds_per_client_step": seconds / load.client_steps, "peak_mb": process.peak_mb()}
            found[kind][str(count)] = row
            print(
                f"{kind:32} {count:6,} clients {1e6 * row['seconds_per_client_step']:8.1f} us a client-step "
                f"{row['peak_mb']:6.0f} MB",
                flush=True,
            )
    return found


def _maker(load: Workload, algo: Algorithm) -> Callable[[], Round]:
    return lambda: federated(load, Data(load), auto, algo)


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
