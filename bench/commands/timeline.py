"""Who downloaded, trained, transmitted and waited, and when the server aggregated, as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.errors import Parser, UserError
from bench.output.pictures import picture, pyplot, save
from bench.output.timeline import Log
from bench.record import read

SHOWN = 40  # devices; more would be thinner than a line
COLOURS = {"download": "tab:gray", "training": "tab:blue", "upload": "tab:orange", "waits for a lost upload": "tab:red"}


def main(argv: Sequence[str]) -> int:
    parser = Parser("python -m bench timeline", description=__doc__)
    parser.add_argument("run", metavar="runs/<id>", type=Path, help="the folder of a run, runs/<id>")
    parser.add_argument("--rounds", type=int, default=5, help="draw the first so many rounds; %(default)s by default")
    parser.add_argument("--png", type=picture, help="the file to write; timeline.png in the folder by default")
    options = parser.parse_args(argv)
    run = read(options.run)
    log = Log(run.folder)
    if not log.path.exists():
        raise UserError(f"{run.folder} has no timeline.csv: no round was finished.")
    jobs = until(log.read(), options.rounds)
    target = options.png or run.folder / "timeline.png"
    clients = sorted({int(job["client"]) for job in jobs})
    shown = chosen(jobs, clients)
    some = f", {len(shown)} of {len(clients)} devices" if len(shown) < len(clients) else ""
    _draw(jobs, shown, f"{run.id}, {min(options.rounds, len(run.rows))} rounds{some}", target)
    more = f"; the picture shows the {len(shown)} that began most jobs" if some else ""
    print(f"{len(jobs)} jobs of {len(clients)} devices{more}: {target}")
    return 0


def until(jobs: Sequence[dict[str, str]], rounds: int) -> list[dict[str, str]]:
    """What had begun when the first so many rounds were over, whether it had ended by then or not."""
    end = max((float(job["arrival"]) for job in jobs if int(job["round"]) <= rounds), default=0.0)
    return [job for job in jobs if float(job["dispatched"]) < end]


def chosen(jobs: Iterable[dict[str, str]], clients: Sequence[int]) -> list[int]:
    """The lanes that are drawn. Of too many devices, those that began most jobs, so that one sees them come back;
    among equals evenly spread over their numbers."""
    if len(clients) <= SHOWN:
        return list(clients)
    began = Counter(int(job["client"]) for job in jobs)
    spread = {client: (k * SHOWN) % len(clients) for k, client in enumerate(clients)}
    return sorted(sorted(clients, key=lambda client: (-began[client], spread[client]))[:SHOWN])


def _draw(jobs: list[dict[str, str]], clients: list[int], title: str, target: Path) -> None:
    from matplotlib.patches import Patch

    plt = pyplot()
    row = {client: k for k, client in enumerate(clients)}
    spans: dict[str, list[tuple[int, float, float]]] = {name: [] for name in COLOURS}
    for job in jobs:
        if (k := row.get(int(job["client"]))) is not None:
            a, b, c, d = (float(job[name]) for name in ("dispatched", "begins", "finish", "arrival"))
            spans["download"].append((k, a, b))
            spans["training"].append((k, b, c))
            spans["waits for a lost upload" if job["outcome"] == "lost" else "upload"].append((k, c, d))
    figure, axes = plt.subplots(figsize=(11, 1.5 + 0.22 * len(clients)), layout="constrained")
    for name, parts in spans.items():
        rows, lefts, widths = [p[0] for p in parts], [p[1] for p in parts], [p[2] - p[1] for p in parts]
        axes.barh(rows, widths, left=lefts, height=0.7, color=COLOURS[name], edgecolor="white", linewidth=0.3)
    ends = _aggregations(jobs)
    axes.vlines(ends, -0.5, len(clients) - 0.5, color="black", linewidth=0.4, alpha=0.5)
    axes.set(xlabel="virtual time (s)", ylabel="device", title=title, ylim=(-0.5, len(clients) - 0.5))
    axes.set_yticks(range(len(clients)), [str(client) for client in clients], fontsize=7)
    patches: list[Any] = [Patch(color=COLOURS[name], label=name) for name, parts in spans.items() if parts]
    axes.legend(handles=patches, loc="upper right", fontsize=8, title="black: aggregation", title_fontsize=8)
    save(figure, target)


def _aggregations(jobs: list[dict[str, str]]) -> list[float]:
    """Every version begins with the aggregation that made it, and is first sent out at that moment."""
    first: dict[int, float] = {}
    for job in jobs:
        version, when = int(job["version"]), float(job["dispatched"])
        first[version] = min(when, first.get(version, when))
    return sorted(when for version, when in first.items() if version > 0)
