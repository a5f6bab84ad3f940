"""The examples in docs/ do what the text says, and stay short; test_lines.py checks the commands."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest
from made_result import made_result

from bench import trust
from bench.__main__ import main
from bench.main import command
from bench.output.pictures import pyplot
from bench.own_code import load_file
from bench.prepare import compose
from bench.prepare.own_files import arguments
from bench.prepare.registry import borrowed, classes
from bench.record import Record, read_all

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> None:
    """Where the commands are given: docs/ is there, and runs/ is not in the tree."""
    shutil.copytree(DOCS / "examples", tmp_path / "docs/examples")


def test_the_check_of_fedavgm_agrees_with_the_derivation_and_fails_for_another_momentum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trust.name("docs/examples/check_fedavgm.py")
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


def test_a_device_of_the_people_is_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["dataset=docs/examples/people.py", "logger=none"]
    assert command([*keys, "rounds=3"]) == 0
    (run,) = read_all(Path("runs"))
    data = json.loads((run.folder / "result.json").read_text())["data"]
    assert (data["clients"], data["samples_per_client"], len(data["sha256"])) == (40, [40, 40], 3)
    assert main(["replay", str(run.folder), *keys[:1]]) == 0
    assert "identical: 3 rounds" in capsys.readouterr().out
    assert command([*keys, "clients=41"]) == 2
    assert "clients=41 is more than the 40 groups of people: use clients=40 or fewer." in capsys.readouterr().err


def test_the_comparison_draws_means_and_intervals_of_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    curves = {
        ("fedavg", 0): (0.2, 0.5),
        ("fedavg", 1): (0.4, 0.7),
        ("feddyn", 0): (0.5, 0.8),
        ("feddyn", 1): (0.5, 0.8),
    }
    earlier = {("afo", 0): (0.1, 0.1)}
    for (algo, seed), accuracies in (earlier | curves).items():
        config = {"algo": {"name": algo}, "dataset": {"name": "digits"}, "seed": seed, "out": "runs"}
        config["group"] = "1" if algo == "afo" else "2"
        record = Record.create(config)
        for number, accuracy in enumerate(accuracies, start=1):
            record.append({"round": number, "test_accuracy": accuracy})
        record.finish(made_result(final=accuracies[-1]))
        record.close()
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot().close("all")  # the script draws on the figure that is open
    drawn = runpy.run_path("docs/examples/compare.py")
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].split() == ["fedavg", "2", "0.6", "0.5", "0.7"] and printed[-1] == "Curves: compare.png"
    axes = drawn["plt"].gca()
    assert [line.get_label() for line in axes.lines] == ["fedavg (2 seeds)", "feddyn (2 seeds)"]
    assert list(axes.lines[0].get_ydata()) == pytest.approx([30, 60])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    half = 12.706204736 * 10  # t(0.975, 1) s / sqrt(2) with values 10 to either side of the mean
    assert (band.min(), band.max()) == pytest.approx((30 - half, 60 + half))
    assert (tmp_path / "compare.png").stat().st_size > 5_000
    drawn["plt"].close("all")


def test_an_example_is_an_option_only_inside_its_command() -> None:
    before = {group: set(classes(group)) for group in ("algo", "dataset")}
    with borrowed():
        config = compose.config(arguments(["algo=docs/examples/fedavgm.py", "dataset=docs/examples/cancer.py"]))
        assert config["algo"] == {"name": "fedavgm", "_target_": f"{Path.cwd()}/docs/examples/fedavgm.py:FedAvgM"} | {
            "beta": 0.9
        }
        assert "fedavgm" in classes("algo")
    assert {group: set(classes(group)) for group in before} == before
    assert command(["algo=fedavgm"]) == 2


def test_an_example_is_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in DOCS.glob("examples/**/*.*")}
    assert len(lengths) > 8
    assert [path for path, n in lengths.items() if n >= (20 if path.stem == "compare" else 100)] == []
