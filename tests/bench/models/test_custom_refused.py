"""Modules that cannot be used are refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from bench import models
from bench.errors import UserError
from bench.main import command
from bench.seeding import stream
from tests.bench.models.own_net import KEYS, NET, write


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
def test_a_module_that_cannot_be_trained_is_refused_in_one_sentence(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_target_needs_the_custom_model(capsys: pytest.CaptureFixture[str]) -> None:
    write(NET)
    assert command(["model.target=./net.py:Net"]) == 2
    assert "which has no target; add model=custom" in capsys.readouterr().err
