"""Runs from a program: bench.federate."""

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from algorithms.fedprox import FedProx
from bench import federate, given
from bench.errors import UserError
from bench.learning.lightning import pl
from bench.main import command
from bench.output.facts import digest
from bench.prepare import compose
from bench.record import read_all

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 6)).astype(np.float32)
Y = (X @ RNG.normal(size=(6, 3))).argmax(1)
TRAIN, TEST = (X[:200], Y[:200]), (X[200:], Y[200:])
SHORT = {"rounds": 4, "clients": 4, "cohort": 2, "partition": "iid", "progress": False}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights(result):
    return result.run.result.weights_sha256


def tensors(pair):
    return TensorDataset(*map(torch.as_tensor, pair))


class Module(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(tensors(TRAIN), batch_size=7, shuffle=True)

    def test_dataloader(self):
        return DataLoader(tensors(TEST), batch_size=7)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 3)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])


@dataclass(frozen=True, kw_only=True)
class Mine(FedProx):
    """One of a program's own."""

    stops: ClassVar[list[int]] = []  # rounds before which Ctrl-C is pressed, once each
    mu: float = 0.5

    def report(self, server, fed):
        if self.stops and len(self.seen) == self.stops[0]:
            self.stops.clear()
            raise KeyboardInterrupt
        self.seen.append(1)
        return {}

    seen: ClassVar[list[int]] = []


def test_bench_is_imported_in_no_time():
    code = "import sys, bench; assert 'federate' in dir(bench); print({'torch', 'hydra', 'numpy'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_the_same_bits_as_at_the_prompt(here):
    result = federate("scaffold", dataset="digits", rounds=6, seed=3, progress=False, **{"algo.eta_g": 0.5})
    assert command(["algo=scaffold", "algo.eta_g=0.5", "rounds=6", "seed=3", "logger=none"]) == 0
    [typed] = [run for run in read_all(here / "runs") if run.folder != result.folder.absolute()][:1]
    assert weights(result) == typed.result.weights_sha256
    assert result.accuracy == result.final == typed.result.final == result.rounds["test_accuracy"].iloc[-1]
    assert list(result.rounds["round"]) == [1, 2, 3, 4, 5, 6] and "scaffold on digits, seed 3" in repr(result)


def test_the_model_is_the_one_that_was_evaluated():
    result = federate("fedavg", dataset=(TRAIN, TEST), lr=0.3, target=0.5, **SHORT)
    mean, std = X[:200].mean(0), X[:200].std(0)
    with torch.no_grad():
        answers = result.model(torch.as_tensor((TEST[0] - mean) / std)).argmax(1).numpy()
    assert (answers == TEST[1]).mean() == pytest.approx(result.accuracy)
    assert digest(torch.cat([p.detach().reshape(-1) for p in result.model.parameters()])) == weights(result)
    kept = torch.load(result.folder / "model.pt", weights_only=True)
    assert kept.keys() == result.model.state_dict().keys()
    assert all(torch.equal(kept[name], value) for name, value in result.model.state_dict().items())
    assert result.rounds_to_target in (1, 2, 3, 4) and result.best >= result.accuracy > 0.5


def test_data_are_the_same_in_whatever_form_they_are_given():
    forms = ((TRAIN, TEST), [tensors(TRAIN), tensors(TEST)], (tensors(TRAIN), TEST), Module())
    assert len({weights(federate("fedavg", dataset=form, **SHORT)) for form in forms}) == 1


def test_images_are_scaled_and_normalised_by_channel():
    x = RNG.integers(0, 256, (60, 3, 4, 4), dtype=np.uint8)
    pair = (x[:40], np.arange(40) % 2), (x[40:], np.arange(20) % 2)
    result = federate("fedavg", dataset=pair, model="linear", lr=1e-9, **SHORT)
    scaled = torch.as_tensor(x).float() / 255
    over = (0, 2, 3)
    inputs = (scaled - scaled[:40].mean(over).reshape(3, 1, 1)) / scaled[:40].std(over, correction=0).reshape(3, 1, 1)
    loss = nn.functional.cross_entropy(result.model(inputs[40:]), torch.arange(20) % 2)
    assert float(loss.detach()) == pytest.approx(result.run.result.final_loss, abs=1e-5)
    result = federate("fedavg", dataset=pair, model="linear", lr=1e-9, normalise=False, **SHORT)
    loss = nn.functional.cross_entropy(result.model(scaled[40:]), torch.arange(20) % 2)
    assert float(loss.detach()) == pytest.approx(result.run.result.final_loss, abs=1e-6)


def test_labels_that_are_real_numbers_are_a_regression():
    y = X @ np.arange(1, 7, dtype=np.float32) + 10 + RNG.normal(size=240).astype(np.float32) / 2
    pair = (X[:200], y[:200]), (X[200:], y[200:])
    result = federate(
        "fedavg", dataset=pair, model=nn.Linear(6, 1), rounds=30, lr=0.1, clients=4, cohort=2, progress=False
    )
    with torch.no_grad():
        z = result.model(torch.as_tensor((X[200:] - X[:200].mean(0)) / X[:200].std(0)))[:, 0].numpy()
    assert result.final == pytest.approx(
        np.sqrt(((z * y[:200].std() + y[:200].mean() - y[200:]) ** 2).mean()), rel=1e-4
    )
    assert result.metric.name == "rmse" and result.final < 1 and result.rounds_to_target is not None
    with pytest.raises(UserError, match=r"judged by RMSE: result\.final"):
        print(result.accuracy)


@pytest.mark.parametrize("module", [nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), Net()])
def test_a_network_begins_with_its_own_numbers_and_is_left_alone(module):
    before = [p.detach().clone() for p in module.parameters()]
    result = federate("fedavg", dataset=(TRAIN, TEST), model=module, lr=1e-7, **SHORT)
    for p, old, new in zip(module.parameters(), before, result.model.parameters(), strict=True):
        assert torch.equal(p.detach(), old) and torch.allclose(new.detach(), old, atol=1e-4)
        assert not torch.equal(new.detach(), old)


def test_two_workers_give_the_same_bits():
    more = {"dataset": (TRAIN, TEST), "model": nn.Linear(6, 3)} | SHORT
    alone, together = federate(Mine, **more), federate(Mine, **more, **{"engine.workers": 2})
    assert weights(alone) == weights(together)
    assert all(map(torch.equal, alone.model.parameters(), together.model.parameters()))


def test_where_devices_deploy_models_of_their_own_the_model_is_the_servers():
    result = federate("local_only", dataset=(TRAIN, TEST), **SHORT)
    assert digest(torch.cat([p.detach().reshape(-1) for p in result.model.parameters()])) == weights(result)


def test_methods_are_names_classes_and_objects_and_runs_are_paired(here):
    results = federate.many(["fedprox", FedProx(mu=0.2), Mine], seeds=range(2), dataset=(TRAIN, TEST), **SHORT)
    table = results.table()
    assert list(table["algo"]) == ["fedprox"] * 4 + ["mine"] * 2 and list(table["seed"]) == [0, 1] * 3
    assert list(table["algo.mu"]) == [0.01, 0.01, 0.2, 0.2, 0.5, 0.5] and table["group"].nunique() == 1
    assert len(results.rounds) == 24 and "accuracy %" in str(results) and len(results[:2]) == 2
    results.plot().savefig(here / "curves.png")


def test_many_runs_keep_their_models_only_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(compose, "FEW", 1)
    short = {"dataset": (TRAIN, TEST)} | SHORT | {"rounds": 1}
    many, asked = (federate.many(["fedavg"], seeds=range(2), **short, **more) for more in ({}, {"keep_model": True}))
    kept = [[(result.folder / "model.pt").exists() for result in results] for results in (many, asked)]
    assert kept == [[False] * 2, [True] * 2]


def test_validation_data_are_tested_on_where_a_module_has_no_test_data():
    class Validated(Module):
        test_dataloader = pl.LightningDataModule.test_dataloader

        def val_dataloader(self):
            return DataLoader(tensors(TEST), batch_size=7)

    same = federate("fedavg", dataset=Module(), **SHORT), federate("fedavg", dataset=Validated(), **SHORT)
    assert same[0].accuracy == same[1].accuracy
    with pytest.raises(UserError, match="Training gives no loader of training data and one of test data"):
        federate(
            "fedavg",
            dataset=type("Training", (Validated,), {"val_dataloader": pl.LightningDataModule.val_dataloader})(),
        )


def test_seeds_may_be_drawn_from_once_and_there_has_to_be_one(here):
    results = federate.many(["fedavg", "fedprox"], seeds=iter([0, 1]), dataset=(TRAIN, TEST), **SHORT)
    assert [result.run.config["seed"] for result in results] == [0, 1, 0, 1]
    with pytest.raises(UserError, match="needs a method and a seed"):
        federate.many([], dataset=(TRAIN, TEST), **SHORT)


def test_nothing_is_run_where_one_of_many_cannot_be(here):
    with pytest.raises(UserError, match="nearest: fedprox"):
        federate.many(["fedavg", "fedprux"], **SHORT)
    assert not (here / "runs").exists()


def test_a_stopped_run_goes_on_with_the_same_objects_only(monkeypatch):
    more = {"dataset": (TRAIN, TEST), "model": nn.Linear(6, 3)}
    whole = federate(Mine, **more, **SHORT)
    Mine.seen.clear()
    Mine.stops.append(2)
    with pytest.raises(KeyboardInterrupt):
        federate(Mine, **more, **SHORT)
    [folder] = [run.folder for run in read_all("runs") if run.result is None]
    other = (TRAIN[0] + 1, TRAIN[1]), TEST
    for wrong, said in (
        ({}, "There is no"),
        ({"algo": Mine}, "The dataset of this run is an object of the program|The model of this run is an object"),
        ({"algo": Mine, **more, "dataset": other}, "dataset.data"),
        ({"algo": Mine, **more, "model": nn.Linear(6, 3)}, "model.target"),
    ):
        monkeypatch.setattr(given, "_objects", {})  # as in another process
        with pytest.raises(UserError, match=said):
            federate(resume=folder, progress=False, **wrong)
    result = federate(Mine, resume=folder, progress=False, **more)
    assert result.folder == folder and weights(result) == weights(whole)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"algo": nn.Linear}, "algo is Linear: it has to be a name, a file, a class that extends Algorithm, or one."),
        ({"dataset": 3}, "dataset is int: it has to be a pair"),
        ({"dataset": (TRAIN, 3)}, "A part of dataset is int"),
        ({"dataset": (TRAIN, (X[:3], Y[:2]))}, "3 samples and labels of shape .2.: one label a sample"),
        ({"dataset": (TRAIN, (X[:3], X[:3, 0]))}, "labels of dataset differ in type: torch.int64 and torch.float32"),
        ({"dataset": (TRAIN, (X[:3, :2], Y[:3]))}, "differ in shape or type"),
        ({"dataset": (TRAIN, (X[:3], Y[:3] - 9))}, "label"),
        ({"model": 4}, "model is int: it has to be a name, an nn.Module or a LightningModule."),
        ({"dataset": (TRAIN, TEST), "model": nn.Linear(9, 3)}, "forward"),
        ({"round": 3}, "Unknown key 'round', nearest: rounds"),
        ({"dataset": (TRAIN, TEST), "clients": 900}, "cannot be dealt to 900"),
    ],
)
def test_what_is_wrong_is_told_in_the_sentences_of_the_command(wrong, said):
    with pytest.raises(UserError, match=said):
        federate(**SHORT | wrong)
