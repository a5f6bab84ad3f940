"""engine=auto, and the engine a record names."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from bench import compiled
from bench.commands import replay
from bench.engine import choose
from bench.engine.choose import Work, engine
from bench.errors import UserError
from bench.learning.batches import Batches
from bench.learning.flat import Layout
from bench.main import command
from bench.models import deep
from bench.record import read_all

LARGE = Work(together=64, steps=10**6)


class Net(nn.Module):
    cross_entropy = True

    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1], reduction="none")


def chosen(name, net, shape, work=LARGE, devices=64):
    x, y = torch.zeros(devices, *shape), torch.zeros(devices, dtype=torch.long)
    clients = np.split(np.arange(devices), devices)
    batches = Batches(x, y, clients, lambda x: x, batch_size=8, classes=10, seed=0)
    module = Net(net)
    return engine(name, module, Layout(module), batches, work)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 10))


def normalised():
    return nn.Sequential(nn.Linear(64, 32), nn.GroupNorm(4, 32), nn.ReLU(), nn.Linear(32, 10))


def residual(width):
    return deep.resnet20({"width": width}, (3, 16, 16), 10)


def large():
    """Whose second convolution is a product of spectra in the chain."""
    features = nn.Conv2d(3, 64, 5), nn.ReLU(), nn.Conv2d(64, 128, 5), nn.MaxPool2d(2), nn.ReLU()
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(128 * 144, 10))


def test_a_chain_of_convolutions_is_trained_in_c_where_that_was_built(monkeypatch):
    found, why = chosen("auto", lenet(), (1, 8, 8))
    if isinstance(compiled.library(), str):
        assert "native would be faster" in why
    else:
        assert (found.name, why) == ("native", "the model is a chain of known layers, and all of them are in C")
        found, why = chosen("auto", large(), (3, 32, 32))
        assert (found.name, type(found).__name__) == ("chain", "Convolutional")
        assert "spectra" in why
        wide = nn.Sequential(nn.Conv2d(256, 256, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
        found, why = chosen("auto", wide, (256, 8, 8))
        assert (found.name, type(found).__name__) == ("chain", "Convolutional")
        assert "so large" in why
    monkeypatch.setattr(compiled, "library", lambda: "its C part was not built")
    found, why = chosen("auto", lenet(), (1, 8, 8))
    assert (found.name, type(found).__name__) == ("chain", "Convolutional")
    assert why.endswith("native would be faster, but its C part was not built")


def test_an_optimizer_that_c_has_not_is_left_to_the_chain():
    found, why = chosen("auto", lenet(), (1, 8, 8), Work(together=64, steps=10**6, beyond="optimizer=adam"))
    assert (found.name, why) == ("chain", "the model is a chain of known layers")


def test_a_row_of_linear_layers_is_trained_in_c_where_that_was_built(monkeypatch):
    found, why = chosen("auto", mlp(), (64,))
    if isinstance(compiled.library(), str):
        assert "native would be faster" in why
    else:
        assert (found.name, why) == ("native", "the model is a row of linear layers")
    monkeypatch.setattr(compiled, "library", lambda: "its C part was not built")
    found, why = chosen("auto", mlp(), (64,))
    assert (found.name, type(found).__name__) == ("chain", "Dense")
    assert why.endswith("native would be faster, but its C part was not built")
    with pytest.raises(UserError, match=r"engine=native cannot train this model: its C part was not built\. Take"):
        chosen("native", mlp(), (64,))


def test_what_is_not_in_single_precision_is_left_to_the_chain():
    net = mlp().double()
    assert chosen("auto", net, (64,))[0].name == "chain"
    with pytest.raises(UserError, match=r"it is torch\.float64 on cpu"):
        chosen("native", net, (64,))


def test_small_models_that_are_no_chain_are_stacked():
    found, why = chosen("auto", normalised(), (64,))
    assert found.name == "vmap"
    assert "it contains GroupNorm(4, 32" in why
    assert "64 devices at once" in why


@pytest.mark.parametrize(
    ("net", "shape", "work", "reason"),
    [
        (
            residual(1.0),
            (3, 16, 16),
            LARGE,
            "bias=True); its models and batches are too large",
        ),
        (normalised(), (64,), Work(together=3, steps=10**6), "too few devices train together (3)"),
        (normalised(), (64,), Work(together=64, steps=20), "20 local steps"),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 10)), (64,), LARGE, "random numbers of their own"),
    ],
)
def test_everything_else_is_left_to_autograd_and_it_says_why(net, shape, work, reason):
    found, why = chosen("auto", net, shape, work)
    assert found.name == "eager"
    assert reason in why
    assert "\n" not in why


def test_a_chain_of_what_is_none_is_refused_with_the_reason():
    with pytest.raises(UserError, match=r"engine=chain cannot .* it contains Block\. Take engine=auto"):
        chosen("chain", nn.Sequential(deep.Block(3, 4, 1), nn.Flatten(), nn.Linear(1024, 10)), (3, 16, 16))


@pytest.mark.parametrize("name", ["eager", "chain", "vmap"])
def test_what_is_asked_for_is_taken(name):
    found, why = chosen(name, mlp(), (64,), Work(together=1, steps=1))
    assert (found.name, why) == (name, "as asked")


def test_the_choice_is_printed_and_recorded_and_a_replay_keeps_it(capsys, monkeypatch):
    assert command(["rounds=1", "clients=4", "cohort=2", "logger=none"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("engine")]
    (run,) = read_all(Path("runs"))
    name = run.config["engine"]["name"]
    assert name in ("native", "chain")
    assert line == f"engine     {name} ({run.result.engine_why})"
    assert run.result.engine == name
    asked = []
    whole = choose.engine
    monkeypatch.setattr(choose, "engine", lambda name, *rest: asked.append(name) or whole(name, *rest))
    assert replay.main([str(run.folder)]) == 0
    assert asked == [name]
    assert "identical" in capsys.readouterr().out


def test_a_resumed_run_goes_on_with_its_engine_whatever_auto_would_say_now(capsys):
    assert command(["rounds=2", "clients=4", "cohort=2", "engine=eager", "logger=none"]) == 0
    (run,) = read_all(Path("runs"))
    (run.folder / "result.json").unlink()
    for given in ("engine=vmap", "engine=chain"):
        assert command([f"resume={run.folder}", given]) == 2
        assert "was run with engine=eager" in capsys.readouterr().err
    assert command([f"resume={run.folder}", "engine=auto"]) == 0
    (again,) = read_all(Path("runs"))
    assert again.result.engine == "eager"
    assert again.result.weights_sha256 == run.result.weights_sha256
    assert yaml.safe_load((run.folder / "config.yaml").read_text())["engine"]["name"] == "eager"
