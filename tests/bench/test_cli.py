"""The command line up to the run itself, which is faked here: what it is given, what it is spared, what is printed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from made_result import made_result

from bench.errors import UserError
from bench.main import command
from bench.record import Run

ROOT = Path(__file__).parents[2]
Runs = list[tuple[dict[str, Any], Path | None]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    """What bench.run.run was called with, in an empty folder."""
    calls: Runs = []
    monkeypatch.setitem(
        sys.modules,
        "bench.run",
        SimpleNamespace(run=lambda config, resume=None, **more: calls.append((config, resume))),
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDBENCH_GROUP", raising=False)
    return calls


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException, when: Callable[[dict[str, Any]], bool]) -> Runs:
    calls: Runs = []

    def run(config: dict[str, Any], resume: Path | None = None, **more: object) -> None:
        calls.append((config, resume))
        if when(config):
            raise error

    monkeypatch.setitem(sys.modules, "bench.run", SimpleNamespace(run=run))
    return calls


def test_a_run_gets_the_resolved_config_and_says_so_first(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["algo=fedprox", "algo.mu=0.5", "seed=3"]) == 0
    (config, resume), out = runs[0], capsys.readouterr().out
    assert resume is None and config["algo"]["mu"] == 0.5 and config["seed"] == 3 and config["group"] is None
    assert config["protocol"] == "none" and config["partition"]["name"] == "dirichlet"
    for word in ("fedprox(mu=0.5)", "protocol   none", "scale      paper", "dirichlet(alpha=0.3", "mlp(hidden=[64]"):
        assert word in out


def test_nothing_is_written_by_the_command_line_itself(runs: Runs, tmp_path: Path) -> None:
    assert command([]) == 0
    assert list(tmp_path.iterdir()) == []


def test_multirun_runs_the_product_in_one_group_and_writes_nothing_itself(runs: Runs, tmp_path: Path) -> None:
    assert command(["-m", "algo=fedavg,fedprox", "seed=range(2)", "out=here"]) == 0
    assert [(c["algo"]["name"], c["seed"]) for c, _ in runs] == [(a, s) for a in ("fedavg", "fedprox") for s in (0, 1)]
    assert len({c["group"] for c, _ in runs}) == 1 and runs[0][0]["group"]
    assert list(tmp_path.iterdir()) == []


def test_multirun_over_every_algorithm(runs: Runs) -> None:
    assert command(["-m", "algo=glob(fed*)", "rounds=1"]) == 0
    assert {"fedavg", "fedprox", "fedlga", "fedasync"} <= {c["algo"]["name"] for c, _ in runs}


def test_multirun_checks_every_job_before_the_first(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["-m", "cohort=5,10,50"]) == 2
    assert runs == [] and "cohort=50 is more than clients=20" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(UserError("It broke."), 2), (RuntimeError("a bug"), 1)])
def test_a_failing_job_does_not_stop_the_others(
    error: Exception, code: int, runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = fail_with(monkeypatch, error, lambda config: config["seed"] == 0)
    assert command(["-m", "seed=0,1"]) == code
    assert len(calls) == 2 and str(error) in capsys.readouterr().err


def test_a_failing_run_is_one_sentence(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, UserError("It broke."), lambda config: True)
    assert command([]) == 2
    assert capsys.readouterr().err == "error: It broke.\n"


def test_ctrl_c_ends_the_multirun(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = fail_with(monkeypatch, KeyboardInterrupt(), lambda config: True)
    assert command(["-m", "seed=0,1"]) == 130
    assert len(calls) == 1 and "Traceback" not in capsys.readouterr().err


def test_a_multirun_ends_with_a_table_a_plot_and_how_to_go_on(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[Path] = []
    done = [
        Run(Path("runs/a"), {}, [{"round": 1}], made_result(), "finished"),
        Run(Path("runs/b"), {}, [], None, "interrupted"),
    ]
    monkeypatch.setattr("bench.main.read_all", lambda out, group: done)
    monkeypatch.setattr("bench.output.tables.leaderboard", lambda runs: f"a table of {len(runs)}")
    monkeypatch.setattr("bench.output.curves.learning_curves", lambda runs, path: drawn.append(path))
    assert command(["-m", "seed=0,1"]) == 0
    out = capsys.readouterr().out
    assert "a table of 1" in out and str(drawn[0]) in out and drawn[0].parent == Path("runs")
    assert "python bench.py" in out.splitlines()[-1]


def recorded(folder: Path, runs: Runs, *words: str) -> dict[str, Any]:
    assert command(list(words or ("algo=fedprox", "lr=0.2"))) == 0
    folder.mkdir(parents=True)
    config = runs.pop()[0]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return config


def test_resume_needs_nothing_else(runs: Runs, tmp_path: Path) -> None:
    config = recorded(tmp_path / "runs/a", runs)
    assert command(["resume=runs/a"]) == 0
    assert command(["resume=runs/a", "algo=fedprox", "lr=0.2"]) == 0
    assert runs == [(config, Path("runs/a"))] * 2


def test_resume_may_name_the_protocol(runs: Runs, tmp_path: Path) -> None:
    config = recorded(tmp_path / "runs/a", runs, "dataset=fmnist", "dataset.source=synthetic")
    assert command(["resume=runs/a", "dataset=fmnist", "protocol=fedlga"]) == 0
    assert runs == [(config, Path("runs/a"))]


def test_cfg_shows_what_was_given(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--cfg", "job", "lr=0.5"]) == 0
    assert "lr: 0.5" in capsys.readouterr().out and runs == []


def test_help_lists_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--help"]) == 0
    out = capsys.readouterr().out
    for word in ("scaffold", "algo.mu=0.01", "fmnist", "dirichlet", "mlp400", "fedlga", "batch_size", "devices.rho"):
        assert word in out
    assert "checkpoint_seconds" in out and "[60.0]" in out and "-m algo=fedavg,scaffold" in out
    assert "\x1b" not in out and max(map(len, out.splitlines())) <= 120


def test_without_the_environment_one_sentence_says_what_to_do() -> None:
    done = subprocess.run([sys.executable, "-S", "bench.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "make" in done.stderr and ". .venv/bin/activate" in done.stderr


def test_runs_under_different_protocols_are_said_before_the_first(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", "dataset=cifar10", "dataset.source=synthetic"]
    assert command([*words, "algo=fedavg,fedagg"]) == 0
    out = capsys.readouterr().out
    first, protocols = out.index("--- job 1"), {config["protocol"] for config, _ in runs}
    sentence = "note: these runs on cifar10 have different protocols (fedlc: fedavg; fedagg: fedagg)"
    assert len(protocols) == 2 and sentence in out[:first]
    assert command([*words, "algo=fedavg,fedagg", "protocol=none"]) == 0
    assert "note:" not in capsys.readouterr().out
