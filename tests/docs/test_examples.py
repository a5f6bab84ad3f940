"""The commands in docs/ do what the text says, at a small number of rounds, and the examples stay short."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.custom import load_file
from bench.main import command, plan, store
from bench.own_files import arguments
from bench.record import read_all
from bench.registry import borrowed, classes

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted(DOCS.glob("examples/*.py"))


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> None:
    """Where the commands are given: docs/ is there, and runs/ is not in the tree."""
    shutil.copytree(DOCS / "examples", tmp_path / "docs/examples")


def commands(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for language, block in blocks if not language for line in block.splitlines()]


def bench(page: str) -> list[str]:
    return [line for line in commands(page) if line.startswith("python bench.py ")]


@pytest.mark.parametrize("line", bench("own_model.md") + bench("own_algorithm.md"))
def test_the_command_runs(line: str, tmp_path: Path) -> None:
    # a shell splits it, which would expand {a,b} and *
    words = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True).stdout
    keys = words.split("\0")[2:-1]
    runs = 1
    for key in keys:
        runs *= len(key.split(",")) if "-m" in keys and key.partition("=")[0] in ("algo", "seed") else 1
    assert command([*keys, "rounds=2", "logger=none"]) == 0
    found = read_all(tmp_path / "runs")
    assert [run.status for run in found] == ["finished"] * runs
    for run in found:
        assert run.config["command"] == shlex.join(["python", "bench.py", *keys, "rounds=2", "logger=none"])


def test_the_pages_have_commands_and_the_check_is_one() -> None:
    assert len(bench("own_model.md")) == 4 and len(bench("own_algorithm.md")) == 3
    assert "python docs/examples/check_fedavgm.py" in commands("own_algorithm.md")
    done = subprocess.run([sys.executable, "docs/examples/check_fedavgm.py"], capture_output=True, text=True)
    assert done.returncode == 0 and float(done.stdout.split()[-1]) < 1e-12


def test_the_check_fails_for_another_momentum(monkeypatch: pytest.MonkeyPatch) -> None:
    check = load_file(Path("docs/examples/check_fedavgm.py").absolute())
    assert check.main() < 1e-12
    right = check.quadratic
    monkeypatch.setattr(check, "quadratic", lambda algo, *a, **k: right(type(algo)(beta=0.6), *a, **k))
    assert check.main() > 1e-3


def test_the_module_learns_the_table(tmp_path: Path) -> None:
    keys = ["dataset=docs/examples/cancer.py", "model=custom", "model.target=docs/examples/tabular.py:TabularNet"]
    assert command([*keys, "rounds=8", "logger=none"]) == 0
    (run,) = read_all(tmp_path / "runs")
    result = json.loads((run.folder / "result.json").read_text())
    assert result["final_accuracy"] > 0.9
    target = f"{tmp_path}/docs/examples/tabular.py:TabularNet"
    assert result["model"] == {"name": target, "parameters": 32 * 30 + 3 * 32 + 2 * 33, "loss": "scalar"}
    # the module's SGD is above the data set's defaults (lr 0.01)
    assert (run.config["lr"], run.config["momentum"], run.config["weight_decay"]) == (0.05, 0.9, 1e-4)
    assert run.config["dataset"]["_target_"] == f"{tmp_path}/docs/examples/cancer.py:Cancer"


def test_fedavgm_without_momentum_is_fedavg(tmp_path: Path) -> None:
    for keys in (["algo=docs/examples/fedavgm.py", "algo.beta=0"], ["algo=fedavg"]):
        assert command([*keys, "rounds=2", "logger=none"]) == 0
    first, second = read_all(tmp_path / "runs")
    assert first.result and second.result
    assert first.result["weights_sha256"] == second.result["weights_sha256"]


def test_an_example_is_an_option_only_inside_its_command() -> None:
    before = {group: set(classes(group)) for group in ("algo", "dataset")}
    store()
    with borrowed():
        (config,) = plan(arguments(["algo=docs/examples/fedavgm.py", "dataset=docs/examples/cancer.py"]), False)
        assert config["algo"] == {"name": "fedavgm", "_target_": f"{Path.cwd()}/docs/examples/fedavgm.py:FedAvgM"} | {
            "beta": 0.9
        }
        assert "fedavgm" in classes("algo")
    assert {group: set(classes(group)) for group in before} == before
    assert command(["algo=fedavgm"]) == 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 100
