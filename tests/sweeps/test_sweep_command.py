"""python -m sweeps: what it prints, what it runs, how it stops, and what it leaves behind."""

import json
import math
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from made_result import made_result
from optuna.trial import TrialState

from bench.errors import UserError
from bench.metrics import Metric
from bench.output.seeds import SeedRuns
from bench.record import read, read_all
from sweeps import __main__ as command
from sweeps import results
from sweeps.drive import Drive, best
from sweeps.estimate import COSTS, hours, seconds
from sweeps.plan import PlannedRun, find, sweeps
from sweeps.queue import RECORD, value
from sweeps.worker import Options, TrialWorker

ROOT = str(Path(__file__).resolve().parents[2])
SMALL = ["dataset.source=synthetic", "dataset.samples=600", "test_samples=100", "logger=none", "clients=6", "cohort=3"]


def called(capsys, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["sweeps", *words])
    code = command.main()
    return code, capsys.readouterr()


def test_a_dry_run_prints_one_command_a_line_and_writes_nothing(capsys, monkeypatch):
    code, text = called(capsys, monkeypatch, "fedlga/table4", "dataset=fmnist", "scale=cpu", "--dry-run")
    lines = text.out.splitlines()
    assert code == 0 and len(lines) == 81
    assert lines[0] == "python bench.py algo=fedavg lr=0.0025 dataset=fmnist protocol=fedlga scale=cpu seed=0"
    assert not list(Path.cwd().iterdir())


def test_the_list_has_every_sweep_with_runs_and_time(capsys, monkeypatch):
    code, text = called(capsys, monkeypatch, "list", "scale=cpu")
    assert code == 0
    for name, sweep in sweeps().items():
        (line,) = [line for line in text.out.splitlines() if line.startswith(f"{name} ")]
        assert f" {len(sweep.jobs)} runs" in line and line.rstrip().endswith(("min", "h", "days"))
    assert "estimated without training" in text.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fedlga/table9"], "Unknown sweep"),
        (["results"], "which sweep"),
        (["fedlga/fig2", "sampler=cma"], "sampler=cma"),
        (["fedlga/fig2", "--workers", "0"], "--workers 0"),
        (["fedlga/fig2", "--storage", "oracle://x/y"], "oracle"),
        (["list", "dataset=imagenet"], "dataset=imagenet"),
        (["fedlga/fig2", "nope=3", "--dry-run"], "Unknown key 'nope'"),
        (["results", "fedlga/fig2", "algo.nope=3"], "algo.nope"),
        (["fedlga/fig2", "rounds=many", "--dry-run"], "rounds"),
        (["fedlga/fig2", "rounds=10", "rounds=9", "--dry-run"], "rounds is given twice"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(capsys, monkeypatch, words, expected):
    code, text = called(capsys, monkeypatch, *words)
    assert code == 2 and expected in text.err and text.err.count("\n") == 1


def test_the_estimate_grows_with_rounds_samples_and_model(monkeypatch):
    def run(*more):
        overrides = ("algo=fedavg", "dataset=cifar10", "protocol=fedagg", "scale=paper", *more)
        return seconds(PlannedRun("fedavg", "cifar10", "", overrides))

    # 20 clients x 3 epochs x 16 steps of 32 a round; three convolutions on 32, 16 and 8 pixels, two linear layers
    millions = (9 * (3 * 32 * 32**2 + 32 * 64 * 16**2 + 64 * 64 * 8**2) + 1024 * 512 + 512 * 10) / 1e6
    sample = 0.11 * millions
    by_hand = 5 + 100 * (20 * (48 * (3.4 + 32 * sample) / 1000 + 0.002) + 10_000 * sample / 3000 + 0.01)
    assert run() == pytest.approx(by_hand)
    assert run("rounds=200") == pytest.approx(2 * run() - 5)
    assert run("cohort=100") > 4 * run() and run("model=vgg11") > 5 * run()
    assert run("batch_size=1000000") == run("batch_size=500")  # a device has no more
    monkeypatch.delitem(COSTS, "vgg11")
    assert math.isnan(run("model=vgg11"))  # nobody timed it
    sweep = find("fedagg/fig12")
    assert hours(sweep, 2.0) == pytest.approx(2 * hours(sweep, 1.0))


def options(name, *keys, **more):
    return Options(name, keys, f"sqlite:///{Path.cwd()}/sweeps.db", "runs", 60, **more)


def test_a_trial_is_one_benchmark_record_of_the_sweeps_group():
    chosen = options("fedagg/equal_rate", *SMALL, "rounds=2", "seed=3", "method=fedavg", "setting=dist=IID;eta=0.0[13]")
    worker = TrialWorker(chosen)
    assert worker.work() == 0
    runs = read_all(Path("runs"), "fedagg/equal_rate")
    assert [run.config["lr"] for run in runs] == [0.01, 0.03] and all(run.result.rounds == 2 for run in runs)
    assert runs[0].config["command"].startswith("python bench.py algo=fedavg dataset=mnist protocol=fedagg")
    trials = worker.queue.trials()
    assert [Path(trial.user_attrs[RECORD]) for trial in trials] == [run.folder.resolve() for run in runs]
    assert [trial.value for trial in trials] == [run.result.final for run in runs]


def test_a_stopped_trial_goes_on_from_its_checkpoint(monkeypatch):
    chosen = options("fedagg/equal_rate", *SMALL, "rounds=6", "seed=3", "method=fedagg", "setting=dist=IID;eta=0.01")
    worker = TrialWorker(chosen)
    watch = worker.queue.watch

    def stop(trial):
        def after(round, accuracy):
            watch(trial)(round, accuracy)
            if round == 3:
                os.kill(os.getpid(), signal.SIGINT)

        return after

    monkeypatch.setattr(worker.queue, "watch", stop)
    assert worker.work() == 130
    (trial,) = worker.queue.trials()
    assert trial.state == TrialState.WAITING and read(Path(trial.user_attrs[RECORD])).status == "interrupted"
    kept = (Path(trial.user_attrs[RECORD]) / "metrics.csv").read_text().splitlines()
    assert len(kept) == 4
    assert TrialWorker(chosen).work() == 0
    (run,) = read_all(Path("runs"))
    assert run.result.rounds == 6 and (run.folder / "metrics.csv").read_text().splitlines()[:4] == kept


def test_a_diverged_run_is_a_finished_trial_that_never_reached_the_target():
    keys = (*SMALL, "rounds=3", "seed=0", "lr=1e14", "method=fedavg", "setting=dist=IID;eta=0.01", "model=mnist_cnn")
    worker = TrialWorker(options("fedagg/equal_rate", *keys))
    assert worker.work() == 0
    (trial,) = worker.queue.trials()
    assert trial.state == TrialState.COMPLETE and trial.value == float("-inf")
    assert trial.user_attrs["result"]["diverged"]["round"] == 1
    table = results.markdown(worker.queue.sweep, results.rows(worker.queue.sweep, results.by_job([trial])))
    assert "| never" in table and "| diverged" in table


def fake(task):
    words = dict(word.split("=", 1) for word in task.claimed.words)
    parameter = float(words.get("algo.mu", words.get("lr", 0)))
    reached = None if parameter == 0.0025 else round(10 / parameter) + int(words["seed"])
    accuracy = 0.5 + parameter / 10
    return made_result(final=accuracy, rounds_to_target=reached, target=0.65, seconds_per_round=0.1)


def finished(*keys):
    worker = TrialWorker(options("fedlga/table4", "dataset=fmnist", "algo=fedavg,fedprox", *keys), fake)
    assert worker.work() == 0
    return worker


def test_the_table_has_the_best_parameters_intervals_and_the_budget():
    sweep = finished().queue.sweep
    rows = results.rows(sweep, results.by_job(finished().queue.trials()))
    assert [(row.runs.label, row.tried, len(row.runs)) for row in rows] == [("lr=0.01", 3, 3), ("algo.mu=1", 3, 3)]
    text = results.markdown(sweep, rows)
    # fedprox mu=1: 10, 11, 12 rounds; 95 % t interval with 2 degrees of freedom: 4.3027 / sqrt(3) = 2.48
    assert "11.0 ± 2.5" in text and "60.00 ± 0.00" in text and "1001.0 ± 2.5" in text
    assert "3 configurations x 3 seeds; the same for every row" in text and "Table IV" in text


def test_a_method_is_not_better_for_missing_the_target():
    rows = results.rows(find("fedlga/table4"), {})
    assert rows == []

    def rank(*contents):
        kept = [results.SweepResult(made_result(**content)) for content in contents]
        return results._rank("rounds_to_target", SeedRuns("", dict(enumerate(kept))))

    never, late = {"rounds_to_target": None, "best": 0.9}, {"rounds_to_target": 500, "best": 0.1}
    assert rank(late) < rank(never)
    half = rank(never, {"rounds_to_target": 5, "best": 0.9})
    assert rank(late, late) < half  # of two seeds, one that never gets there
    assert rank(late) < rank({"rounds_to_target": 3, "best": 0.9, "diverged": {"round": 9}})


def test_where_lower_is_better_the_lowest_is_the_best():
    rmse = Metric("rmse", "RMSE", higher=False)
    low, high = (made_result(metric=rmse, final=final, target=56.0) for final in (50.0, 60.0))
    kept = [SeedRuns(label, {0: results.SweepResult(result)}) for label, result in (("b", high), ("a", low))]
    for goal in ("final", "best", "rounds_to_target"):
        assert results._rank(goal, kept[1]) < results._rank(goal, kept[0])
    assert value("best", low) > value("best", high) > value("best", made_result(metric=rmse, diverged={"round": 1}))
    sweep = replace(find("fedlga/table4"), goal="best")
    rows = [results.BestConfiguration(("fedavg", "diabetes", ""), runs, 1, 1) for runs in kept]
    text = results.markdown(sweep, rows)
    assert "| rounds to 56 | final RMSE | best RMSE |" in text and "lowest RMSE of any round" in text
    assert "50.000" in text and "%" not in text.partition("\n\n")[0]


def test_plots_are_html_and_png_and_every_run_is_in_the_csv(capsys):
    worker = finished()
    drive = Drive(worker.options, 1, worker.queue)
    assert drive.run() == 0
    text = capsys.readouterr().out
    assert "18 runs, 18 finished before" in text and "fedprox" in text
    for name in ("history.html", "history.png", "importance.html", "importance.png"):
        assert (drive.folder / name).stat().st_size > 2000, name
    lines = (drive.folder / "results.csv").read_text().splitlines()
    assert len(lines) == 1 + 18 and "never" in lines[1] and lines[-1].endswith("seed=2")
    assert "best 10 rounds to the target (algo=fedprox algo.mu=1)" in best(worker.queue)


def test_failures_are_listed_with_their_reason_and_the_exit_code_says_so(capsys):
    def fails(task):
        if "algo=fedprox" in task.claimed.words:
            raise UserError("No data here.")
        return fake(task)

    chosen = options("fedlga/table4", "dataset=fmnist", "algo=fedavg,fedprox", "seed=0")
    worker = TrialWorker(chosen, fails)
    assert worker.work() == 0
    assert Drive(chosen, 1, worker.queue).run() == 1
    err = capsys.readouterr().err
    assert "3 x No data here." in err and "first: python bench.py algo=fedprox algo.mu=0.1" in err
    assert f"{chosen.name} dataset=fmnist algo=fedavg,fedprox seed=0 --storage" in err and "1 --retry-failed" in err


def test_a_sweep_of_which_all_failed_says_so_when_it_is_repeated_and_has_no_table(capsys):
    def fails(task):
        raise UserError("No data here.")

    chosen = options("fedlga/table4", "dataset=fmnist", "algo=fedprox", "seed=0")
    worker = TrialWorker(chosen, fails)
    assert worker.work() == 0
    assert Drive(chosen, 1, worker.queue).run() == 1
    out = capsys.readouterr().out
    assert "3 runs, 0 finished, 3 failed before" in out and "No run is finished." in out and "Table:" not in out


@pytest.mark.parametrize(
    ("hours", "text"), [(0.5, "30 min"), (30, "30.0 h"), (240, "10 days"), (36 * 24 * 365, "36 years")]
)
def test_an_estimate_has_the_unit_that_people_would_choose(hours, text):
    assert command._time(hours) == text


def run_command(*words, **more):
    env = os.environ | {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "sweeps", *words], env=env, text=True, **more)


@pytest.mark.slow
def test_ctrl_c_ends_cleanly_and_the_repeated_command_goes_on():
    words = ["fedagg/equal_rate", *SMALL, "rounds=1000", "seed=0", "method=fedagg", "setting=dist=IID;eta=0.01"]
    first = run_command(*words, "--workers", "1", stdout=subprocess.PIPE)
    end = time.monotonic() + 120
    while not any(len(path.read_text().splitlines()) > 3 for path in Path("runs").glob("2*/metrics.csv")):
        assert time.monotonic() < end
        time.sleep(0.2)
    first.send_signal(signal.SIGINT)
    out = first.communicate(timeout=60)[0]
    assert first.returncode == 130 and "To go on: python -m sweeps fedagg/equal_rate" in out
    (folder,) = Path("runs").glob("2*")
    assert read(folder).status == "interrupted"
    second = run_command(*words, stdout=subprocess.PIPE)
    out = second.communicate(timeout=120)[0]
    assert second.returncode == 0 and "1/1 finished" in out
    assert [run.result.rounds for run in read_all(Path("runs"))] == [1000]


@pytest.mark.slow
def test_two_workers_on_two_machines_share_one_study_and_the_dashboard_shows_it():
    words = ["fedagg/equal_rate", *SMALL, "rounds=2", "seed=0", "setting=dist=IID*", "--storage", "sqlite:///one.db"]
    both = [run_command(*words, "--out", out, stdout=subprocess.PIPE) for out in ("here", "there")]
    assert [process.wait(180) for process in both] == [0, 0]
    records = [read_all(Path(out)) for out in ("here", "there")]
    assert sum(map(len, records)) == 6 and all(run.result for part in records for run in part)
    server = run_command("dashboard", *words, "--port", "18431", stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline().startswith("http://127.0.0.1:18431/dashboard/studies/")
        end = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen("http://127.0.0.1:18431/api/studies", timeout=5) as answer:
                    studies = json.load(answer)["study_summaries"]
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.3)
        assert [study["study_name"].split()[0] for study in studies] == ["fedagg/equal_rate"]
    finally:
        server.terminate()
        server.wait(20)
