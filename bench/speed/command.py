"""How fast a round is: each way of running the same work, in turns, against a plain loop. Let nothing else run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import torch

from bench.errors import Parser, UserError, unknown
from bench.output import pictures
from bench.speed import growth
from bench.speed.processes import PEERS, Own, Peer
from bench.speed.variants import VARIANTS
from bench.speed.work import WORKLOADS, Data, Workload

TURN = 0.3  # seconds of a repetition, one round at least
VariantFigures = dict[str, dict[str, float]]  # by variant


def main(argv: Sequence[str]) -> int:
    parser = Parser("python -m bench speed", description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="comma-separated: %(default)s")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="comma-separated: %(default)s")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=60, help="no further repetition of a variant after so many")
    parser.add_argument(
        "--peers", type=Path, help="the Python of an environment with pip install .[peers]: pfl, flower"
    )
    parser.add_argument("--growth", action="store_true", help="instead: cost and memory from 10 to 1,000,000 clients")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=pictures.picture, help="draw them into this PNG")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    if options.repetitions < 1:
        raise UserError(f"--repetitions {options.repetitions} is not possible: it must be at least 1.")
    if options.growth:
        found = growth.measure()
        _write(found, options.json)
        if options.plot:
            growth.draw(found, options.plot)
        return 0
    results = {}
    variants = _known(options.variants, VARIANTS, "variant")
    for name in _known(options.workloads, WORKLOADS, "workload"):
        print(f"{name}: {WORKLOADS[name].client_steps:,} client-steps a round", flush=True)
        results[name] = measure(WORKLOADS[name], variants, options.repetitions, options.seconds, options.peers)
    _write(results, options.json)
    if options.plot:
        _bars(results, options.plot)
    return 0


def measure(
    load: Workload, variants: Sequence[str], repetitions: int, seconds: float, peers: Path | None = None
) -> VariantFigures:
    """Medians over interleaved repetitions, after a round to warm up; prints them. A repetition of short rounds is
    several of them in a row: a run has no other process between its rounds that empties the caches."""
    data = Data(load)
    taken: dict[str, list[float]] = {}
    overheads: dict[str, list[float]] = {}
    figures: VariantFigures = {}
    with ExitStack() as stack:
        processes: dict[str, Own | Peer] = {}
        for name in [*variants, *(PEERS if peers else ())]:
            if peers and name in PEERS:
                made: Own | Peer = Peer(peers, name, load)
            else:
                made = Own(partial(VARIANTS[name], load, data))
            stack.enter_context(closing(made))
            if made.refusal:
                print(f"  {name:12} {made.refusal}", flush=True)
                continue
            processes[name], taken[name], overheads[name] = made, [made.round()[0]], []
        for _ in range(repetitions):
            for name, process in processes.items():
                if len(taken[name]) == 1 or sum(taken[name]) < seconds:
                    turn = [process.round() for _ in range(max(1, round(TURN / taken[name][-1])))]
                    taken[name].append(statistics.mean(value for value, _ in turn))
                    overheads[name] += [outside for _, outside in turn if outside is not None]
        for name, process in processes.items():
            median = statistics.median(taken[name][1:])
            figures[name] = {
                "seconds_per_round": median,
                "client_steps_per_second": load.client_steps / median,
                "peak_mb": process.peak_mb(),
            }
    _report(figures, {name: statistics.median(values) for name, values in overheads.items() if values})
    return figures


def _report(figures: VariantFigures, overheads: Mapping[str, float]) -> None:
    base = figures.get("plain", {}).get("seconds_per_round")
    for name, row in figures.items():
        value = row["seconds_per_round"]
        ratio = "" if base is None else f"{base / value:7.2f} x plain"
        outside = f"   loop {1000 * overheads[name]:.1f} ms a round" if name in overheads else ""
        print(
            f"  {name:12}{1000 * value:11.1f} ms a round {row['client_steps_per_second']:10.0f} steps/s "
            f"{row['peak_mb']:6.0f} MB{ratio}{outside}",
            flush=True,
        )


def _write(results: object, target: Path | None) -> None:
    if target is None:
        return
    try:
        target.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write to {target}: {error.strerror}; give another file with --json.") from None


def _known(given: str, known: Mapping[str, object], what: str) -> list[str]:
    names = given.split(",")
    for name in names:
        if name not in known:
            raise unknown(what, name, known)
    return names


def _bars(results: Mapping[str, VariantFigures], target: Path) -> None:
    """Client-steps a second of every variant, a panel for each workload."""
    figure, panels = pictures.pyplot().subplots(
        1, len(results), figsize=(1 + 3 * len(results), 4), squeeze=False, layout="constrained"
    )
    for panel, (workload, figures) in zip(panels[0], results.items(), strict=True):
        names = list(figures)[::-1]
        bars = panel.barh(names, [figures[name]["client_steps_per_second"] for name in names])
        if base := figures.get("plain"):
            ratios = [base["seconds_per_round"] / figures[name]["seconds_per_round"] for name in names]
            panel.bar_label(bars, [f"{ratio:.1f}" for ratio in ratios], padding=2, fontsize=8)
        panel.set(title=workload, xlabel="client-steps a second", xlim=(0, 1.2 * panel.get_xlim()[1]))
        panel.tick_params(labelsize=8)
    figure.suptitle("Speed of local training; the numbers are multiples of the plain loop")
    pictures.save(figure, target)
