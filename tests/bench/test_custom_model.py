"""model=custom: a LightningModule of the user's own, through the real command and the real engine."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bench import models
from bench.assemble import build
from bench.errors import UserError
from bench.main import command, plan, store
from bench.record import load_all
from bench.resolve import options
from bench.seeding import stream

NET = """
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F

class Net(pl.LightningModule):
    def __init__(self, shape, classes, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(shape[0], hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y, reduction="none")
"""
SCALAR = NET.replace(', reduction="none"', "")
SMALL = ["clients=4", "cohort=2", "rounds=2", "epochs=1", "logger=none"]
KEYS = ["model=custom", "model.target=./net.py:Net", *SMALL]


def write(text: str, path: str = "net.py") -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text)


def config(*keys: str) -> dict[str, Any]:
    store()
    return plan([*KEYS, *keys], False)[0]


def perceptron() -> torch.Tensor:
    store()
    return trained(plan([*SMALL, "model=mlp", "model.hidden=[64]"], False)[0])[0]


def weights(*keys: str) -> tuple[torch.Tensor, dict[str, Any]]:
    return trained(config(*keys))


def trained(config: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
    parts = build(config)
    while not parts.loop.finished:
        parts.loop.advance()
    return parts.loop.server["w"], parts.model


def test_the_built_in_perceptron_as_a_module_of_ones_own_is_the_same_bit_for_bit() -> None:
    write(NET)
    own, facts = weights()
    assert torch.equal(own, perceptron())
    assert facts == {"name": "./net.py:Net", "parameters": 4810, "loss": "per sample"}


def test_scalar_loss_trains_alike_and_the_record_says_so(tmp_path: Path) -> None:
    write(SCALAR)
    own, facts = weights()
    assert facts["loss"] == "scalar"
    torch.testing.assert_close(own, perceptron(), atol=1e-5, rtol=0)
    assert command(KEYS) == 0
    (run,) = load_all(tmp_path / "runs")
    assert run.result
    assert run.result["model"] == {"name": f"{tmp_path}/net.py:Net", "parameters": 4810, "loss": "scalar"}
    assert run.config["model"] == {"name": "custom", "target": f"{tmp_path}/net.py:Net", "args": {}}


def test_a_dictionary_with_the_loss() -> None:
    write(SCALAR.replace("return F.cross_entropy(self(x), y)", "return {'loss': F.cross_entropy(self(x), y)}"))
    own, facts = weights()
    write(SCALAR)
    assert facts["loss"] == "scalar" and torch.equal(own, weights()[0])


def test_the_seed_decides_initial_values_and_dropout() -> None:
    write(NET.replace("nn.ReLU(),", "nn.ReLU(), nn.Dropout(0.5),"))
    torch.manual_seed(1)
    first = weights()[0]
    torch.manual_seed(2)
    assert torch.equal(first, weights()[0])
    assert torch.equal(first, weights("engine.batch=1")[0])
    assert not torch.equal(first, weights("seed=1")[0])


def test_from_a_package_in_the_working_directory_with_arguments(tmp_path: Path) -> None:
    write(NET, "package_of_mine/__init__.py")
    keys = ["model.target=package_of_mine.Net", "model.args={hidden: 8}"]
    assert weights(*keys)[1] == {"name": "package_of_mine.Net", "parameters": 65 * 8 + 90, "loss": "per sample"}
    write(NET, "package_of_mine/deeper.py")
    assert weights("model.target=package_of_mine.deeper.Net")[1]["parameters"] == 4810


def test_the_only_module_of_a_file_and_one_without_arguments() -> None:
    write(
        NET.replace("shape, classes, hidden=64", "").replace("shape[0], hidden", "64, 3").replace("hidden, c", "3, c")
    )
    write(Path("net.py").read_text().replace("3, classes", "3, 10"))
    assert weights("model.target=./net.py")[1]["parameters"] == 65 * 3 + 40


def test_float64() -> None:
    write(NET.replace("hidden, classes))", "hidden, classes)).double()"))
    own = weights()[0]
    assert own.dtype == torch.float64
    torch.testing.assert_close(own.float(), perceptron(), atol=1e-4, rtol=0)


def test_what_a_module_logs_changes_nothing_and_the_run_says_once_that_it_is_not_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = "self.log('train_loss', 1.0, prog_bar=True)\n        self.log_dict({'a': torch.ones(()), 'b': 2})\n"
    write(NET.replace("x, y = batch\n", f"x, y = batch\n        {logs}"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = weights()[0]
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line.startswith("log ")] == [
        "log        not kept: train_loss, a, b of self.log; see metrics.csv for what is"
    ]
    assert err == ""
    write(NET)
    assert torch.equal(own, weights()[0])
    assert "self.log" not in capsys.readouterr().out


def test_frozen_parameters_stay_out() -> None:
    write(NET.replace("hidden, classes))", "hidden, classes))\n        self.net[1].requires_grad_(False)"))
    assert weights()[1]["parameters"] == 650


SGD = "\n    def configure_optimizers(self):\n        return torch.optim.SGD(self.parameters(), {})\n"


def test_the_modules_sgd_is_above_the_data_set_and_below_protocol_and_command_line() -> None:
    write(NET + SGD.format("lr=0.03, momentum=0.5, weight_decay=0.002"))

    def rates(*keys: str) -> tuple[float, ...]:
        made = config(*keys)
        return made["lr"], made["momentum"], made["weight_decay"]

    assert rates() == (0.03, 0.5, 0.002)
    assert rates("lr=0.2", "momentum=0") == (0.2, 0.0, 0.002)
    write(NET)
    assert rates() == (0.1, 0.0, 0.0)
    # fmnist's home protocol sets lr; the module does not ask for the data, which need not be here
    write(NET.replace("shape, classes", "shape=(784,), classes=10") + SGD.format("lr=0.03, momentum=0.5"))
    keys = ("dataset=fmnist", "model.args={shape: [784], classes: 10}", "clients=100")
    paper = options("protocol")["fedlga"]["datasets"]["fmnist"]
    assert rates(*keys) == (paper["lr"], paper.get("momentum", 0.5), paper.get("weight_decay", 0.0))
    assert rates(*keys, "protocol=none") == (0.03, 0.5, 0.0)


@pytest.mark.parametrize(
    "returned",
    ["[torch.optim.SGD(self.parameters(), lr=0.5)]", "{'optimizer': torch.optim.SGD(self.parameters(), lr=0.5)}"],
)
def test_other_ways_to_return_sgd(returned: str) -> None:
    write(NET + f"\n    def configure_optimizers(self):\n        return {returned}\n")
    assert config()["lr"] == 0.5


def optimiser(text: str) -> str:
    return NET + f"\n    def configure_optimizers(self):\n        o = torch.optim\n        return {text}\n"


def step(text: str) -> str:
    return NET.replace('return F.cross_entropy(self(x), y, reduction="none")', text)


ADAM = ["belongs to the federated method", "torch.optim.SGD"]
BAD: dict[str, tuple[str, str, list[str]]] = {
    "no target": (NET, "model.target=null", ["needs model.target", "./file.py:Class"]),
    "a name only": (NET, "model.target=Net", ["not Net", "package.Class"]),
    "no file": (NET, "model.target=./nut.py:Net", ["There is no file", "nut.py"]),
    "no class": (NET, "model.target=./net.py:Nett", ["Unknown class in", "nearest: Net"]),
    "no package": (NET, "model.target=nowhere.Net", ["no module nowhere for nowhere.Net", "nor among the installed"]),
    "no module in it": (NET, "model.target=torch.nowhere.Net", ["no module torch.nowhere"]),
    "broken": ("import nowhere_at_all\n", "", ["No module named 'nowhere_at_all'", "line 1 of net.py"]),
    "broken module": (NET, "model.target=broken_of_mine.Net", ["cannot be imported", "line 2 of broken_of_mine.py"]),
    "several": (NET + "\nclass Other(Net):\n    pass\n", "model.target=./net.py", ["(Net, Other)", "net.py:Class"]),
    "none in it": ("x = 1\n", "model.target=./net.py", ["defines no LightningModule"]),
    "not Lightning": (NET.replace("pl.LightningModule", "nn.Module"), "", ["net.py:Net is not a LightningModule"]),
    "not a class": (NET.replace("class Net", "Net = 3\nclass Nit"), "", ["is not a LightningModule"]),
    "arguments": (NET, "model.args={hiden:3}", ["Unknown argument of Net 'hiden'", "nearest: hidden"]),
    "missing argument": (
        NET.replace("hidden=64", "hidden"),
        "",
        ["missing a required argument: 'hidden'", "model.args"],
    ),
    "constructor": (
        NET.replace("shape[0]", "shape[5]"),
        "",
        ["Net cannot be constructed: IndexError", "line 10 of net"],
    ),
    "no training_step": (NET.replace("def training_step", "def train_step"), "", ["Net has no training_step"]),
    "no forward": (NET.replace("def forward", "def run"), "", ["Net has no forward"]),
    "by hand": (
        NET.replace("self.net = ", "self.automatic_optimization = False\n        self.net = "),
        "",
        ["Net optimises by hand"],
    ),
    "hook": (NET + "\n    def on_after_backward(self):\n        pass\n", "", ["overrides on_after_backward"]),
    "setup": (NET + "\n    def setup(self, stage):\n        pass\n", "", ["overrides setup"]),
    "no parameters": (
        NET.replace("hidden, classes))", "hidden, classes)).requires_grad_(False)"),
        "",
        ["no trainable parameters"],
    ),
    "two types": (NET.replace("hidden, classes))", "hidden, classes).half())"), "", ["torch.float16, torch.float32"]),
    "lazy": (NET.replace("nn.Linear(shape[0], hidden)", "nn.LazyLinear(hidden)"), "", ["lazy parameter net.1.weight"]),
    "batch norm": (
        NET.replace("nn.ReLU(),", "nn.BatchNorm1d(hidden), nn.ReLU(),"),
        "",
        ["net.2 is a BatchNorm1d", "nn.GroupNorm(32, 64)"],
    ),
    "buffer": (
        step("self.seen += 1\n        return self(x).sum(1)").replace(
            "self.net = ", "self.register_buffer('seen', torch.zeros(()))\n        self.net = "
        ),
        "",
        ["changes its buffer seen"],
    ),
    "output": (
        NET.replace("classes)", "classes + 1)"),
        "",
        ["forward of Net gives [10, 11] for 10 samples", "[10, 10]"],
    ),
    "no tensor": (NET.replace("return self.net(x)", "return (self.net(x),)"), "", ["forward of Net gives tuple"]),
    "None": (step("F.cross_entropy(self(x), y)"), "", ["training_step of Net returns NoneType"]),
    "no loss in it": (step("return {'lost': 1}"), "", ["returns NoneType", "return the loss"]),
    "number": (step("return 0.5"), "", ["returns float"]),
    "logits": (step("return self(x)"), "", ["loss of shape [10, 10]", "one number per sample, [10]"]),
    "detached": (step("return F.cross_entropy(self(x), y).detach()"), "", ["does not depend on its parameters"]),
    "one sample": (
        step("return self(x).sum() / (len(y) - 1) + [0][1 // len(y)]"),
        "",
        ["failed on a batch of [[1, 64], [1]]", "of net.py"],
    ),
    "trainer": (
        step("return self(x).sum() * self.trainer.max_epochs"),
        "",
        ["training_step of Net failed", "not attached to a `Trainer`", "line 17 of net.py"],
    ),
    "adam": (optimiser("o.Adam(self.parameters())"), "", ["configure_optimizers of Net returns Adam", *ADAM]),
    "nesterov": (optimiser("o.SGD(self.parameters(), 1, 0.9, nesterov=True)"), "", ["SGD with nesterov", *ADAM]),
    "dampening": (optimiser("o.SGD(self.parameters(), 1, 0.9, 0.1)"), "", ["SGD with dampening", *ADAM]),
    "two": (optimiser("o.SGD(self.parameters(), 1), o.SGD(self.parameters(), 1)"), "", ["several optimisers", *ADAM]),
    "scheduler": (
        optimiser("(lambda s: ([s], [o.lr_scheduler.StepLR(s, 1)]))(o.SGD(self.parameters(), 1))"),
        "",
        ["a scheduler or", *ADAM],
    ),
    "groups": (
        optimiser("o.SGD([{'params': self.net[1].parameters(), 'lr': 1}, {'params': self.net[3].parameters()}], 2)"),
        "",
        ["parameter groups that differ", *ADAM],
    ),
    "a part": (optimiser("o.SGD(self.net[3].parameters(), 2)"), "", ["SGD of some of its parameters", *ADAM]),
    "broken optimiser": (optimiser("o.SGD(self.nothing)"), "", ["configure_optimizers of Net failed: AttributeError"]),
    "rate": (optimiser("o.SGD(self.parameters(), 0.0)"), "", ["lr=0.0 is not possible"]),
}


@pytest.mark.parametrize("case", BAD)
def test_one_sentence(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, key, words = BAD[case]
    write(text)
    write("x = 1\ny = x / 0\n", "broken_of_mine.py")
    assert command([*KEYS, *([key] if key else [])]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith(".\n")
    for word in words:
        assert word in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("layer", "recipe"),
    [(nn.BatchNorm2d(64), "(32, 64)"), (nn.BatchNorm1d(13), "(1, 13)"), (nn.BatchNorm2d(48), "(24, 48)")],
)
def test_batch_norm_is_refused_in_any_network_with_the_recipe(
    layer: nn.Module, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(models.NETWORKS, "normed", lambda *_: nn.Sequential(nn.Linear(2, 2), layer))
    with pytest.raises(UserError) as refused:
        models.build({"name": "normed"}, (2,), 2, stream(0, "init"))
    assert f"write nn.GroupNorm{recipe} in its place" in str(refused.value)


def test_the_module_of_the_other_lightning_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """`import lightning` has a LightningModule of its own, which is another class."""
    from bench.models import custom

    other = type("LightningModule", (nn.Module,), {"__module__": "lightning.pytorch.core.module"})
    assert custom._base(type("Net", (other,), {})) is other


def test_target_without_custom(capsys: pytest.CaptureFixture[str]) -> None:
    write(NET)
    assert command(["model.target=./net.py:Net"]) == 2
    assert "which has no target; add model=custom" in capsys.readouterr().err


def test_resume_of_a_run_with_a_module_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(SCALAR)
    assert command(KEYS) == 0
    (run,) = load_all(tmp_path / "runs")
    (run.folder / "result.json").unlink()
    assert command([f"resume={run.folder}", "model=custom", "model.target=net.py:Net"]) == 0
    (again,) = load_all(tmp_path / "runs")
    assert run.result and again.result and run.result["weights_sha256"] == again.result["weights_sha256"]
    (run.folder / "result.json").unlink()
    assert command([f"resume={run.folder}", "model=custom", "model.target=nit.py:Net"]) == 2
    assert "was run with model.target=" in capsys.readouterr().err
