"""Short runs of every algorithm on the bundled digits, pinned: has anything moved?

tests/golden/<algorithm>.json holds its runs, one per plan below that it takes part in. What is gone or different is a
change.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT

from bench.errors import UserError
from bench.record import Run, read_all, write_atomically

ROOT = Path(__file__).resolve().parents[1]
COMMON = (
    *("dataset=digits", "rounds=5", "epochs=3", "batch_size=20", "seed=0", "devices.rho=0.5"),
    *("engine.device=cpu", "logger=none", "protocol=none"),  # a paper may cover digits
)
ALL = "algo=glob(*)"
# one multirun each; without `algo` it is the default algorithm
PLANS: dict[str, tuple[str, ...]] = {
    "plain": (ALL,),
    "with_replacement": (
        *(ALL, "sampling=with_replacement", "weighting=uniform", "momentum=0.5"),
        *("devices=simulation", "devices.loss=0.1"),
    ),
    "semi_async": ("concurrency=20", "buffer=4"),
}
# Relative; other processors round matrix products differently, which moved no loss by more than 2e-7 when torch was
# told to use other instruction sets. Accuracies: absolute, two of the 360 test images of digits.
TOLERANCES = {
    **{"train_loss": 1e-4, "test_loss": 1e-4, "test_accuracy": 2.5 / 360},
    **{"virtual_seconds": 1e-9, "staleness_mean": 1e-9},
}
EXACT = ("version", "gradient_evaluations", "bytes_up", "bytes_down", "bytes_peer", "staleness_max")
QUANTITIES = (*TOLERANCES, *EXACT)
Trajectory = dict[str, list[float]]  # quantity -> value per round
Runs = dict[str, dict[str, Trajectory]]  # algorithm -> plan -> trajectory


class RunFailed(RuntimeError):
    """bench.py did not get through; the text is the end of what it printed."""


@dataclass(frozen=True)
class Change:
    """One thing that moved: what, what it was, what it is, by how much."""

    name: str
    golden: str
    now: str
    difference: str


def folder(root: Path = ROOT) -> Path:
    """Where the golden files are."""
    path = root / "tests" / "golden"
    if not path.is_dir() or not (root / "bench.py").is_file():
        raise UserError("python -m leaderboards check compares with tests/golden/: run it in a checkout of fedbench.")
    return path


def load(path: Path) -> Runs:
    found: Runs = {}
    for file in sorted(path.glob("*.json")):
        try:
            found[file.stem] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise UserError(f"{file} is not readable JSON; python -m leaderboards check --update writes it.") from None
    return found


def save(path: Path, runs: Runs) -> None:
    """One quantity a line, so that a diff shows what moved."""
    for algo, plans in runs.items():
        blocks = []
        for plan, trajectory in plans.items():
            lines = ",\n".join(f'    "{name}": {json.dumps(values)}' for name, values in trajectory.items())
            blocks.append(f'  "{plan}": {{\n{lines}\n  }}')
        write_atomically(path / f"{algo}.json", "{\n" + ",\n".join(blocks) + "\n}\n")


def run_now(root: Path = ROOT, names: Sequence[str] = ()) -> Runs:
    """Every plan through the real command, at once; of these algorithms only, if there are names."""
    plans = PLANS if not names else _plans_of(names, load(folder(root)))
    with ThreadPoolExecutor(len(plans)) as pool:
        done = pool.map(lambda keys: multirun((*keys, *COMMON), ("FEDBENCH_", "WANDB_"), root), plans.values())
        found: Runs = {}
        for plan, runs in zip(plans, done, strict=True):
            for run in runs:
                found.setdefault(run.config["algo"]["name"], {})[plan] = trajectory(run)
    return dict(sorted(found.items()))


def _plans_of(names: Sequence[str], pinned: Runs) -> dict[str, tuple[str, ...]]:
    """The plans of all algorithms, cut down to these, and the others that one of them is pinned by."""
    chosen = {plan: tuple(f"algo={','.join(names)}" if key == ALL else key for key in PLANS[plan]) for plan in PLANS}
    theirs = {plan for name in names for plan in pinned.get(name, {})}
    return {plan: keys for plan, keys in chosen.items() if keys != PLANS[plan] or plan in theirs}


def multirun(keys: Sequence[str], hidden: tuple[str, ...], root: Path) -> list[Run]:
    """The runs of bench.py -m in one thread, to which variables that begin with what is `hidden` are not passed on."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="fedbench-check-") as folder:
        out = Path(folder) / "runs"
        command = [sys.executable, str(root / "bench.py"), "-m", *keys, f"out={out}"]
        done = subprocess.run(command, cwd=folder, env=env, stdout=PIPE, stderr=STDOUT, text=True, errors="replace")
        if done.returncode:
            raise RunFailed(f"bench.py -m {' '.join(keys)}\n{done.stdout[-2000:]}")
        return read_all(out)


def trajectory(run: Run) -> Trajectory:
    return {name: [_shortened(row[name]) for row in run.rows] for name in QUANTITIES}


def _shortened(value: float) -> float:
    """Twelve digits are more than any tolerance here asks for."""
    return value if isinstance(value, int) else float(f"{value:.12g}")


def compare(golden: Runs, now: Runs) -> list[Change]:
    """What moved, at the first round where each quantity of each run differs."""
    changes = []
    for algo in sorted(golden.keys() | now.keys()):
        old, new = golden.get(algo, {}), now.get(algo, {})
        for plan in old | new:
            if plan not in new:
                changes.append(Change(f"{algo} {plan}", "pinned", "not run", ""))
            elif plan not in old:
                changes.append(Change(f"{algo} {plan}", "none yet", f"{len(new[plan]['version'])} rounds", ""))
            else:
                changes += _differences(f"{algo} {plan}", old[plan], new[plan])
    return changes


def _differences(name: str, old: Trajectory, new: Trajectory) -> Iterator[Change]:
    for quantity in old | new:
        a, b = old.get(quantity, []), new.get(quantity, [])
        if len(a) != len(b):
            yield Change(f"{name} {quantity}", f"{len(a)} rounds", f"{len(b)} rounds", "")
            continue
        moved = [t for t in range(len(a)) if not _same(quantity, a[t], b[t])]
        if moved:
            t = moved[0]
            more = f" and {len(moved) - 1} more" if len(moved) > 1 else ""
            yield Change(f"{name} {quantity}, round {t + 1}{more}", f"{a[t]:.9g}", f"{b[t]:.9g}", f"{b[t] - a[t]:+.3g}")


def _same(quantity: str, a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):  # of a round without an aggregation
        return math.isnan(a) and math.isnan(b)
    if quantity not in TOLERANCES:
        return a == b
    scale = 1.0 if quantity == "test_accuracy" else max(abs(a), abs(b))
    return abs(a - b) <= TOLERANCES[quantity] * scale
