"""sampler=tpe: the same budget for every method, the paper's points first, then around them, pruned when hopeless."""

import math
from pathlib import Path

import optuna
import pytest
from made_result import made_result
from optuna.trial import TrialState

from sweeps import fairness
from sweeps.drive import Drive
from sweeps.search import GRID, SearchQueue
from sweeps.worker import Options, TrialWorker

KEYS = ("dataset=fmnist", "algo=fedavg,fedprox,fedlga", "seed=4,5")


def chosen(trials=6):
    return Options("fedlga/table4", KEYS, f"sqlite:///{Path.cwd()}/sweeps.db", "runs", 60, "tpe", trials)


def accuracy(claimed):
    """Best at lr = 0.02, which no grid has; mu and scale do little."""
    words = dict(word.split("=", 1) for word in claimed.words)
    return 0.8 - 0.1 * abs(math.log10(float(words.get("lr", 0.005)) / 0.02))


def execute(task):
    for round in range(1, 13):
        task.on_round(round, accuracy(task.claimed) * round / 12)
    best = accuracy(task.claimed)
    return made_result(final=best, rounds_to_target=9, target=0.65)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("search"))
        worker = TrialWorker(chosen(), execute)
        assert worker.work() == 0
        yield worker


def by_method(worker):
    return {study.user_attrs["label"][0]: study.get_trials() for study in worker.queue.studies}


def test_every_method_gets_the_same_number_of_trials(searched):
    assert {method: len(trials) for method, trials in by_method(searched).items()} == dict.fromkeys(
        ("fedavg", "fedlga", "fedprox"), 6
    )
    state = searched.queue.state()
    assert (state.total, state.finished, state.failed, state.open) == (18, 18, 0, 0)


def test_the_papers_grid_comes_first_and_is_never_pruned(searched):
    trials = by_method(searched)["fedprox"]
    assert [trial.params["algo.mu"] for trial in trials[:3]] == [0.1, 0.5, 1.0]
    assert {trial.params["lr"] for trial in trials[:3]} == {0.005}  # the protocol's
    assert all(t.state == TrialState.COMPLETE and t.user_attrs[GRID] for t in trials[:3])
    assert not any(trial.user_attrs.get(GRID) for trial in trials[3:])


def test_the_space_lies_around_the_grid_and_has_the_rate_for_everyone(searched):
    spaces = {space.label[0]: space.ranges for space in searched.queue.spaces.values()}
    assert set(spaces["fedavg"]) == {"lr"}
    mu, rate = spaces["fedprox"]["algo.mu"], spaces["fedprox"]["lr"]
    assert (mu.low, mu.high, mu.log) == (pytest.approx(0.1 / 3), pytest.approx(3.0), True)
    assert (rate.low, rate.high, rate.log) == (pytest.approx(0.0005), pytest.approx(0.05), True)
    scale = spaces["fedlga"]["algo.scale"]
    assert (scale.low, scale.high, scale.log) == (pytest.approx(-0.9), pytest.approx(-0.01), False)
    for trials in by_method(searched).values():
        for trial in trials:
            assert all(d.low <= trial.params[key] <= d.high for key, d in trial.distributions.items())


def test_a_trial_runs_the_parameters_it_was_given(searched):
    trial = by_method(searched)["fedprox"][5]
    job = trial.user_attrs["job"]
    assert f"lr={trial.params['lr']:.6g}" in job and f"algo.mu={trial.params['algo.mu']:.6g}" in job
    assert job.endswith("seed=4") and job.count("algo.mu=") == 1


def test_the_table_compares_the_grid_with_what_was_found(searched):
    text = fairness.markdown(searched.queue)
    (row,) = [line for line in text.splitlines() if line.startswith("| fedprox")]
    best_of_grid = 100 * (0.8 - 0.1 * math.log10(4))
    assert f"{best_of_grid:.2f}" in row and " 6 " in row
    found = max(t.value for t in by_method(searched)["fedprox"] if t.state == TrialState.COMPLETE)
    assert f"{100 * found - best_of_grid:+.2f}" in row and found > best_of_grid / 100
    assert "Budget: 6 trials for every row" in text


def test_a_repeated_search_has_nothing_left_to_do_and_a_larger_budget_goes_on(searched):
    again = TrialWorker(chosen(), execute)
    assert again.work() == 0 and len(again.queue.trials()) == 18
    assert again.queue.claim() is None
    more = chosen(7).queue()
    assert [more.claim().words[0] for _ in range(3)] == ["algo=fedavg", "algo=fedlga", "algo=fedprox"]
    assert more.claim() is None


@pytest.mark.slow
def test_a_finished_search_leaves_its_table_and_plots_of_every_method(capsys):
    worker = TrialWorker(chosen(), execute)
    assert worker.work() == 0
    assert Drive(chosen(), 1, worker.queue).run() == 0
    folder = Path("runs/fedlga-table4-algo=fedavg,fedprox,fedlga-dataset=fmnist-seed=4,5-sampler=tpe")
    assert (folder / "results.md").exists() and len(list(folder.glob("*history.png"))) == 3
    assert "search: best %" in capsys.readouterr().out


def test_a_trial_behind_the_median_is_pruned_unless_the_paper_has_it():
    worker = TrialWorker(chosen(10), execute)
    assert isinstance(worker.queue, SearchQueue)
    study = worker.queue.studies[0]
    for _ in range(6):
        curve = dict.fromkeys(range(1, 13), 0.7)
        study.add_trial(optuna.create_trial(state=TrialState.COMPLETE, value=0.7, intermediate_values=curve, params={}))
    trials = [claimed.trial for claimed in iter(worker.queue.claim, None) if claimed.trial.study is study]
    of_grid = next(trial for trial in trials if trial.user_attrs.get(GRID))
    for round in range(1, 13):
        worker.queue.watch(of_grid)(round, 0.1)
    trial = next(trial for trial in trials if not trial.user_attrs.get(GRID))
    with pytest.raises(optuna.TrialPruned):
        for round in range(1, 13):
            worker.queue.watch(trial)(round, 0.1)
    worker._tell(trial, TrialState.PRUNED, {}, None)
    assert worker.queue.state().finished == 7
