"""The whole run on the bundled digits, through the real loop, in one process."""

import gc
import json
import math
import re
import signal
import time
import weakref
from collections import Counter
from contextlib import nullcontext

import pytest

from bench import run as module
from bench.checkpoint import checkpoint_path
from bench.engine.steps import Steps
from bench.errors import UserError
from bench.learning.evaluate import Evaluate
from bench.main import command
from bench.output import facts
from bench.prepare import compose
from bench.record import TIMES, read, read_all
from bench.run import run
from datamodules.digits import Digits


def config(tmp_path, *overrides):
    keys = ["dataset=digits", "clients=6", "cohort=3", "epochs=1", "rounds=6", "logger=none"]
    made = compose.config([*keys, f"out={tmp_path / 'runs'}", *overrides])
    return made


def advancing(monkeypatch, hook):
    """Call `hook(loop)` before each round of any loop that is built from now on."""
    build = module.build

    def built(*arguments):
        parts = build(*arguments)
        advance = parts.loop.advance

        def hooked():
            hook(parts.loop)
            return advance()

        parts.loop.advance = hooked
        return parts

    monkeypatch.setattr(module, "build", built)


def without_times(rows):
    return str([{key: value for key, value in row.items() if key not in TIMES} for row in rows])


def test_a_process_keeps_nothing_of_its_earlier_runs(tmp_path, monkeypatch):
    build, loops = module.build, []

    def built(*arguments):
        parts = build(*arguments)
        loops.append(weakref.ref(parts.loop))
        return parts

    monkeypatch.setattr(module, "build", built)
    gone = []
    gc.disable()  # as if Python did not find it worthwhile
    try:
        for _ in range(2):
            run(config(tmp_path, "algo=fedavg", "rounds=1"), on_record=lambda _: gone.append(loops[0]() is None))
    finally:
        gc.enable()
    assert gone == [False, True]


def test_the_result_says_what_was_done(tmp_path, capsys):
    result = run(config(tmp_path, "algo=fedavg", "target=0.15", "seed=4", "eval_every=2") | {"group": "g"})
    (found,) = read_all(tmp_path / "runs", group="g")
    assert found.status == "finished" and found.result == result
    assert json.loads((found.folder / "result.json").read_text()) == result.to_dict()
    rows = found.rows
    accuracy = [row["test_accuracy"] for row in rows]
    assert [t for t, value in enumerate(accuracy, 1) if not math.isnan(value)] == [2, 4, 6]
    assert (result.algo, result.dataset, result.protocol, result.seed) == ("fedavg", "digits", "none", 4)
    assert result.final == accuracy[-1]
    assert result.best == max(accuracy[1::2])
    assert result.rounds == len(rows) == 6
    reached = next(t for t, value in enumerate(accuracy, 1) if value >= 0.15)
    assert result.rounds_to_target == reached
    seconds = [row["train_seconds"] for row in rows]
    assert result.seconds_per_round == pytest.approx(sum(seconds) / 6)
    assert result.seconds_to_target == pytest.approx(sum(seconds[:reached]))
    # a synchronous round moves the model down to 3 devices and up again, 4 bytes a parameter
    assert result.model == {"name": "mlp", "parameters": 4810}
    assert result.upload_bytes == result.download_bytes == 6 * 3 * 4 * 4810
    assert result.peer_bytes == 0
    assert result.gradient_evaluations == rows[-1]["gradient_evaluations"] > 0
    assert result.data.keys() >= {"source", "train", "test", "classes", "clients"}
    assert len(result.weights_sha256) == 64
    assert result.versions.keys() == {"python", "torch", "pytorch_lightning", "numpy", "fedbench"}
    assert result.git_revision == facts.git_revision()
    assert 0 <= result.machine.pop("others") <= 1 and result.machine == facts.machine()
    out, err = capsys.readouterr()
    assert "4,810 parameters" in out and f"engine     {result.engine} (" in out
    assert "schedule   synchronous, 3 of 6 clients a round" in out
    labels = Counter(Digits().load().test.y.tolist())
    guess = 100 * max(labels.values()) / labels.total()
    assert f"target     15.0 %; always answering the most frequent class: {guess:.1f} %\n" in out
    last = out.splitlines()
    assert last[-1] == str(found.folder)
    at = rows[reached - 1]
    spent = f"{at['virtual_seconds']:.1f} virtual s, {at['bytes_up'] / 2**20:.1f} MB sent up"
    assert f"accuracy {100 * accuracy[-1]:.2f} %" in last[-3] and f"after {reached} rounds ({spent})" in last[-3]
    megabytes = result.upload_bytes / 2**20
    whole = f"6 rounds: {result.virtual_seconds:.1f} virtual s, {megabytes:.1f} MB up, {megabytes:.1f} MB down; "
    assert last[-2].startswith(whole)
    assert err.splitlines()[-1].startswith("round 6/6, accuracy")


def test_a_long_first_round_says_how_far_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.output.progress.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("bench.output.progress.SOON_SECONDS", 0.2)
    add, steps = Steps.add, []

    def slow(self, taken):
        add(self, taken)
        steps.append(taken)
        time.sleep(0.02 if len(steps) < 100 else 0)

    whole = run(config(tmp_path / "quick", "algo=fedasync", "engine=eager", "engine.workers=1"))
    capsys.readouterr()
    monkeypatch.setattr(Steps, "add", slow)
    result = run(config(tmp_path, "algo=fedasync", "engine=eager", "engine.workers=1"))
    first, *more = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"round 1/6, 6 devices \d+ % trained, .+ left", first)
    assert all(re.match(r"round \d/6, accuracy", line) for line in more)
    assert result.weights_sha256 == whole.weights_sha256


def test_an_asynchronous_run_says_what_a_round_is(tmp_path, capsys):
    run(config(tmp_path, "algo=fedasync", "rounds=1"))
    assert "6 of 6 clients at work, aggregation after every upload; a round is 6 uploads" in capsys.readouterr().out


def test_a_missed_target_is_null_and_never(tmp_path, capsys):
    result = run(config(tmp_path, "rounds=1", "target=0.99"))
    assert result.rounds_to_target is None and result.seconds_to_target is None
    assert "target 99 % never" in capsys.readouterr().out


def test_virtual_time_ends_a_run(tmp_path):
    whole = run(config(tmp_path, "algo=fedasync"))
    short = run(config(tmp_path, "algo=fedasync", f"virtual_seconds={whole.virtual_seconds / 2}"))
    assert short.rounds < whole.rounds
    assert short.virtual_seconds == whole.virtual_seconds / 2


@pytest.mark.parametrize("algo", ["fedavg", "scaffold", "fedasync"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_readable_and_resumes_to_the_same_end(tmp_path, monkeypatch, capfd, algo, number):
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    whole = run(config(tmp_path / "whole", f"algo={algo}"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        advancing(patch, lambda loop: signal.raise_signal(number) if loop.round == 3 else None)
        run(config(tmp_path, f"algo={algo}"))
    (stopped,) = read_all(tmp_path / "runs")
    assert stopped.status == "interrupted" and len(stopped.rows) == 3
    assert checkpoint_path(stopped.folder).exists()
    assert f"python bench.py resume={stopped.folder}" in capfd.readouterr().out
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before
    result = run(stopped.config, resume=stopped.folder)
    assert result.weights_sha256 == whole.weights_sha256
    assert "others" in whole.machine and "others" not in result.machine
    (reference,) = read_all(tmp_path / "whole" / "runs")
    assert without_times(read(stopped.folder).rows) == without_times(reference.rows)
    assert len(read_all(tmp_path / "runs")) == 1


@pytest.mark.parametrize("round", [2, 6])
def test_a_run_that_is_stopped_while_it_is_evaluated_does_not_train_that_round_again(tmp_path, monkeypatch, round):
    whole, sums = run(config(tmp_path / "whole", "algo=fedbabu")), Evaluate.sums

    def stopping(evaluate, *given):
        if trained and trained[-1].round == round:
            signal.raise_signal(signal.SIGINT)
        return sums(evaluate, *given)

    trained = []
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        advancing(patch, trained.append)
        patch.setattr(Evaluate, "sums", stopping)
        run(config(tmp_path, "algo=fedbabu"))
    (stopped,) = read_all(tmp_path / "runs")
    assert len(stopped.rows) == round - 1 and stopped.result is None
    with monkeypatch.context() as patch:
        advancing(patch, trained.append)
        before = len(trained)
        result = run(stopped.config, resume=stopped.folder)
    assert len(trained) - before == 6 - round
    assert result.weights_sha256 == whole.weights_sha256
    (reference,) = read_all(tmp_path / "whole" / "runs")
    assert without_times(read(stopped.folder).rows) == without_times(reference.rows)
    assert (stopped.folder / "timeline.csv").read_text() == (reference.folder / "timeline.csv").read_text()


def test_a_second_ctrl_c_stops_at_once_and_the_run_starts_over(tmp_path, monkeypatch):
    def twice(loop):
        if loop.round == 2:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    whole = run(config(tmp_path / "whole"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        advancing(patch, twice)
        run(config(tmp_path))
    (stopped,) = read_all(tmp_path / "runs")
    assert len(stopped.rows) == 2 and not checkpoint_path(stopped.folder).exists()
    assert run(stopped.config, resume=stopped.folder).weights_sha256 == whole.weights_sha256
    assert [row["round"] for row in read(stopped.folder).rows] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_last_round_leaves_a_finished_run_and_still_stops_its_caller(tmp_path, number):
    with pytest.raises(KeyboardInterrupt):
        run(config(tmp_path), on_round=lambda round, accuracy: signal.raise_signal(number) if round == 6 else None)
    (found,) = read_all(tmp_path / "runs")
    assert found.status == "finished" and found.result.rounds == 6


def test_sigterm_to_a_multirun_ends_all_of_it(tmp_path, monkeypatch, capfd):
    advancing(monkeypatch, lambda loop: signal.raise_signal(signal.SIGTERM) if loop.round == 3 else None)
    words = ["-m", "seed=0,1,2", "rounds=6", "dataset=digits", "logger=none", f"out={tmp_path / 'runs'}"]
    assert command(words) == 130
    assert [run.status for run in read_all(tmp_path / "runs")] == ["interrupted"]
    assert "--- job 2" not in capfd.readouterr().out


def test_an_error_keeps_the_rows_and_frees_the_record(tmp_path, monkeypatch):
    def fail(loop):
        if loop.round == 2:
            raise RuntimeError("boom")

    advancing(monkeypatch, fail)
    with pytest.raises(RuntimeError, match="boom"):
        run(config(tmp_path))
    (found,) = read_all(tmp_path / "runs")
    assert found.status == "interrupted" and len(found.rows) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_garbage_is_collected_rarely_while_a_run_goes_on_and_as_before_when_it_is_over(tmp_path, monkeypatch, fails):
    before, seen = (gc.get_threshold(), gc.get_freeze_count()), []

    def hook(loop):
        seen.append((gc.get_threshold()[0], gc.get_freeze_count() > 10_000))
        if fails:
            raise RuntimeError("a bug")

    advancing(monkeypatch, hook)
    with pytest.raises(RuntimeError) if fails else nullcontext():
        run(config(tmp_path, "algo=fedavg", "rounds=2"))
    assert {*seen} == {(50_000, True)} and before[0][0] < 50_000
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_a_finished_run_is_not_run_again(tmp_path):
    run(config(tmp_path, "rounds=1"))
    (found,) = read_all(tmp_path / "runs")
    with pytest.raises(UserError, match="finished already"):
        run(found.config, resume=found.folder)
