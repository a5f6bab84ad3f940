"""What a run is expected to take, against what it then takes, and that asking changes nothing."""

import copy
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench import run as module
from bench.output.progress import roughly
from bench.prepare import compose, forecast
from bench.prepare.assemble import build
from bench.record import read_all
from bench.run import run

SMALL = ["dataset=digits", "clients=6", "cohort=3", "rounds=4", "logger=none"]


def config(*keys):
    return compose.config([*SMALL, *keys])


def finished(parts):
    """Seconds, and the traffic, of all rounds with an evaluation after each."""
    while not parts.loop.finished:
        parts.loop.advance()
    return parts.loop


def seed_all():
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)


def draw_all():
    return [torch.rand(1).item(), np.random.rand(), random.random()]


@pytest.mark.parametrize(
    "keys",
    [
        ["algo=fedavg"],
        ["algo=fedavg", "sampling=with_replacement", "devices.rho=0.5"],
        ["algo=scaffold", "local_unit=step", "epochs=5"],
        ["algo=fed2a", "algo.P=3", "algo.D=1"],  # what it sends depends on the version
        ["algo=fedasync", "devices.up=0.1", "devices.down=0.2"],
        ["algo=fedasync", "virtual_seconds=0.5"],
        ["algo=ce_afl", "devices.loss=0.3"],  # lost uploads count too
    ],
    ids=str,
)
def test_traffic_and_work_are_exact_before_anything_is_trained(keys):
    made = config(*keys)
    parts = build(made)
    amounts = forecast._amounts(parts.loop, made["virtual_seconds"])
    loop = finished(parts)
    assert (amounts.up, amounts.down, amounts.peer) == (loop.traffic.up, loop.traffic.down, loop.traffic.peer)
    assert amounts.up > 0 and amounts.aggregations == loop.version and amounts.rounds == loop.round
    assert amounts.steps == loop.evaluations


@pytest.mark.parametrize("algo", ["fedavg", "fedagg", "fed2a", "fedlc", "fedgh", "fedbabu", "mimelite"])
def test_asking_changes_nothing_of_the_run(algo, monkeypatch):
    made = config(f"algo={algo}")
    asked, other = build(made), build(made)
    seed_all()
    expected = draw_all()
    seed_all()
    before = copy.deepcopy(asked.loop.state_dict())
    monkeypatch.setattr(forecast, "QUIET", 0.0)  # so that everything is measured
    forecast.measure(asked)
    assert draw_all() == expected
    assert str(asked.loop.state_dict()) == str(before)
    assert torch.equal(finished(asked).server["w"], finished(other).server["w"])


def test_the_parts_add_up(monkeypatch):
    made = config("algo=fedavg", "rounds=10", "eval_every=5", "epochs=2")
    monkeypatch.setattr(forecast, "_seconds", lambda loop, total: (2.0, 10.0, 100.0))
    monkeypatch.setattr(forecast, "_evaluation", lambda parts: 1000.0)
    parts = build(made)
    found = forecast.measure(parts)
    loop = finished(parts)
    by_hand = 2.0 * loop.evaluations + 10.0 * 10 * 3 + 100.0 * 10 + 1000.0 * 2
    assert found.seconds == pytest.approx(by_hand, abs=1.0)  # and the moment that the clock takes


def test_fine_tuning_and_many_models_count_as_evaluation():
    babu, plain = build(config("algo=fedbabu")).evaluate, build(config("algo=fedavg")).evaluate
    _, epochs = babu.tuning
    assert plain.effort(False) == plain.effort(True) == (1, 0)
    assert babu.effort(True) == (1 + 6, 6 * epochs)  # the shared model, and each device's after tuning
    gh = build(config("algo=fedgh")).evaluate
    assert gh.effort(True) == (6, 0)


def a_forecast(seconds):
    return forecast.Forecast(seconds, 1.2e9, 3e9, 1e9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def test_a_long_run_says_so_and_a_short_one_is_quiet(tmp_path, monkeypatch, capsys):
    made = config(f"out={tmp_path}", "rounds=1")
    expected = iter([a_forecast(25000.0), a_forecast(540.0), a_forecast(59.0)])
    monkeypatch.setattr(forecast, "measure", lambda parts: next(expected))
    run(made, smaller=lambda: made)
    line = "forecast   about 6.9 h here, 1.2 GB of memory, 4.0 GB of traffic (3.0 GB up, 1.0 GB down); "
    assert line + "scale=cpu takes about 9 min\n" in capsys.readouterr().out
    run(made)
    assert "forecast" not in capsys.readouterr().out
    seconds = sorted(found.result.forecast["seconds"] for found in read_all(tmp_path))
    assert seconds == [59.0, 25000.0]
    assert all(found.result.peak_memory_bytes > 1e8 for found in read_all(tmp_path))


def test_a_resumed_run_goes_by_what_was_found_when_it_began(tmp_path, monkeypatch, capsys):
    made = config(f"out={tmp_path}")
    monkeypatch.setattr(forecast, "measure", lambda parts: a_forecast(8000.0))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "_fit", lambda *_: exec("raise KeyboardInterrupt"))
        run(made)
    (stopped,) = read_all(tmp_path)
    monkeypatch.setattr(forecast, "measure", lambda parts: a_forecast(1.0))
    capsys.readouterr()
    result = run(stopped.config, resume=stopped.folder)
    assert "about 2.2 h for the rest of it" in capsys.readouterr().out
    assert result.forecast["seconds"] == 8000.0


def begun(rounds, seconds):
    """What `_forecast` asks of a record that was forecast when it began."""
    return SimpleNamespace(forecast=lambda: {"seconds": seconds}, rows=[{}] * rounds)


@pytest.mark.parametrize(("rounds", "said"), [(1, "about 3 min"), (3, None)])
def test_a_resumed_run_says_what_is_left_of_it_if_that_is_long(rounds, said, capsys):
    found = module._forecast(SimpleNamespace(config={"rounds": 4}), begun(rounds, 240.0), lambda: None)
    line = capsys.readouterr().out
    assert found == {"seconds": 240.0} and line == (f"forecast   {said} for the rest of it\n" if said else "")


def test_a_smaller_scale_that_would_take_longer_is_not_offered(monkeypatch, capsys):
    kept = []
    new = SimpleNamespace(forecast=lambda: None, keep_forecast=kept.append)
    parts = SimpleNamespace(loop=SimpleNamespace(algo=SimpleNamespace(mail=None)))
    monkeypatch.setattr(forecast, "measure", lambda parts: a_forecast(600.0))
    for seconds, offered in ((599.0, True), (600.0, False)):
        monkeypatch.setattr(module, "_shorter", lambda smaller, seconds=seconds: seconds)
        module._forecast(parts, new, lambda: {"scale": "cpu"})
        assert ("; scale=cpu takes about 10 min" in capsys.readouterr().out) is offered
    assert [found["seconds"] for found in kept] == [600.0, 600.0]


def test_traffic_between_devices_that_depends_on_training_is_not_guessed():
    assert "and what devices send each other" in forecast.sentence(a_forecast(99.0), mail=True)
    known = replace(a_forecast(99.0), peer_bytes=2e9)
    assert forecast.sentence(known, mail=True).endswith("2.0 GB between devices)")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (61, "61 s"),
        (89.9, "90 s"),
        (540, "9 min"),
        (5000, "83 min"),
        (25000, "6.9 h"),
        (50000, "14 h"),
        (2e5, "2.3 days"),
    ],
)
def test_rough_durations_read_well(seconds, text):
    assert roughly(seconds) == text
