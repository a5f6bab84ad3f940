"""model=custom: a LightningModule of the user's own, through the real command and the real engine."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from bench.main import command
from bench.prepare.resolve import options
from bench.record import read_all
from tests.bench.models.own_net import KEYS, NET, SCALAR, SGD, config, perceptron, weights, write


def test_the_built_in_perceptron_as_a_module_of_ones_own_is_the_same_bit_for_bit() -> None:
    write(NET)
    own, facts = weights()
    assert torch.equal(own, perceptron())
    assert facts == {"name": f"{Path.cwd()}/net.py:Net", "parameters": 4810, "loss": "per sample"}


def test_scalar_loss_trains_alike_and_the_record_says_so(tmp_path: Path) -> None:
    write(SCALAR)
    own, facts = weights()
    assert facts["loss"] == "scalar"
    torch.testing.assert_close(own, perceptron(), atol=1e-5, rtol=0)
    assert command(KEYS) == 0
    (run,) = read_all(tmp_path / "runs")
    assert run.result
    assert run.result.model == {"name": f"{tmp_path}/net.py:Net", "parameters": 4810, "loss": "scalar"}
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


def test_a_module_in_float64_is_trained_in_float64() -> None:
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


def test_resume_of_a_run_with_a_module_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(SCALAR)
    assert command(KEYS) == 0
    (run,) = read_all(tmp_path / "runs")
    (run.folder / "result.json").unlink()
    assert command([f"resume={run.folder}", "model=custom", "model.target=net.py:Net"]) == 0
    (again,) = read_all(tmp_path / "runs")
    assert run.result and again.result and run.result.weights_sha256 == again.result.weights_sha256
    (run.folder / "result.json").unlink()
    assert command([f"resume={run.folder}", "model=custom", "model.target=nit.py:Net"]) == 2
    assert "was run with model.target=" in capsys.readouterr().err
