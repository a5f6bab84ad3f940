"""Command lines that once ended in a traceback, hung, misled or were accepted: each is refused in one sentence now."""

from pathlib import Path

import pytest

from bench.errors import Diverged
from tests.e2e.forked import ended
from tests.running import bench

LONG = "a" * 100_000
LINES = {
    # tracebacks
    "model=resnet18": ["model=resnet18 cannot be made for inputs of 64 numbers"],
    "model=densenet121": ["model=densenet121 cannot be made for inputs of 64 numbers"],
    "model=googlenet": ["model=googlenet cannot be made for inputs of 64 numbers"],
    "model=fed2a_cnn model.channels=[]": ["model.channels=[] is not possible", "two"],
    "model=fed2a_cnn model.channels=[1,2,3]": ["model.channels=[1, 2, 3] is not possible", "two"],
    "logger=wandb logger.project=a/b": ["logger.project=a/b is not possible"],
    f"logger=wandb logger.project={'a' * 129}": ["logger.project=", "is not possible"],
    "model.args={a:1}": ["model.args was given, but model=mlp here", "add model=custom"],
    "logger=null": ["Unknown logger"],
    f"rounds={'9' * 5000}": ["'rounds=999", "(5007 characters)' is not key=value"],
    f"seed={'9' * 5000}": ["'seed=999", "is not key=value"],
    f"seed={2**63}": ["seed=9223372036854775808 is not possible", "below 2^63"],
    "algo=fedavg\nx": ["'algo=fedavg\\nx' has a control character"],
    "out=\udcff": ["has a control character"],
    "algo=fedadagrad algo.tau=6e27": [
        "algo.tau=6e+27 is not possible: it must be 0, or between 1e-15 and 1e+15 in size"
    ],
    "lr=1e300": ["lr=1e+300 is not possible: it must be 0, or between 1e-15 and 1e+15 in size"],
    "lr=5e-324": ["lr=5e-324 is not possible: it must be 0, or between 1e-15 and 1e+15 in size"],
    "algo=fed2a algo.P=99999999999999999999": ["algo.P=99999999999999999999 is not possible", "below 2^63"],
    f"algo=fedgh algo.steps={2**63 - 1}": ["is not possible: it must be between 1 and 100000"],
    "concurrency=${lr}": ["concurrency=${lr} refers to a key that is left open"],
    "algo=fedasync algo.b=2": ["algo.b=2.0 makes no difference here: it needs algo.staleness=hinge"],
    # wrongly accepted
    "schedule=sync concurrency=20 buffer=3": ["schedule=sync", "concurrency=20", "buffer=3"],
    "schedule=sync arrivals_per_round=3": ["arrivals_per_round=3 makes no difference here", "asynchronous"],
    "arrivals_per_round=3": ["arrivals_per_round=3 makes no difference here", "asynchronous"],
    "devices.tau_max=1": ["devices.tau_max=1 makes no difference here: it needs stragglers"],
    "devices.seconds=[1,2] devices.spread=3": ["devices.spread=3.0 makes no difference here: it needs devices.seconds"],
    "devices.peer=[1,2]": ["devices.peer=[1.0, 2.0] makes no difference here"],
    "logger=none logger.project=mine": ["logger.project=mine makes no difference here: it needs logger=wandb"],
    "devices.up=true": ["devices.up=True is not possible"],
    "devices.down=[1,true]": ["devices.down=[1, True] is not possible"],
    "devices.seconds_per_step=1e308": ["devices.seconds_per_step=1e+308 is not possible"],
    "devices.up=1e-308": ["devices.up=1e-308 is not possible"],
    # hangs
    f"algo={LONG}": ["Unknown algorithm 'aaaa", "(100000 characters)"],
    "algo=fedlc devices.loss=0.9999999999": [
        "devices.loss=0.9999999999 is not possible: it must be between 0 and 0.99"
    ],
    "schedule=async arrivals_per_round=9223372036854775807": ["This run would take about", "years"],
    "rounds=9223372036854775807": ["This run would take about", "years"],
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:40])
def test_a_line_that_was_not_refused_in_one_sentence(line, refused):
    Path("runs").mkdir()
    words = [line] if "\n" in line else line.split(" ")
    refused([*words, *([] if "logger=" in line else ["logger=none"])], LINES[line])


def test_an_aggregated_model_that_diverged_cannot_be_left_out():
    assert "on_divergence=drop" in str(Diverged(1, 3, "its loss is nan"))
    assert str(Diverged(1, None, "w")) == "Round 1: the aggregated model diverged (w); try a smaller lr."


def test_a_class_whose_name_is_too_long_for_a_folder(refused):
    name = "F" + "x" * 200
    Path("mine.py").write_text(
        "from dataclasses import dataclass\nfrom algorithms.base import Algorithm\n\n"
        f"@dataclass(frozen=True, kw_only=True)\nclass {name}(Algorithm):\n    pass\n"
    )
    refused(["algo=./mine.py"], ["201 characters", "at most 80"], silent=True)


TOOLS = {
    ("bench", "partition dataset=digits --png=x.exe"): ["'x.exe' is not the name of a picture", ".png"],
    ("bench", "partition dataset=digits --png=/"): ["'/' is not the name of a picture"],
    ("bench", "partition dataset=digits --png="): ["'' is not the name of a picture"],
    ("bench", "timeline runs/x --png=x"): ["'x' is not the name of a picture"],
    ("bench", "speed --plot x.exe"): ["'x.exe' is not the name of a picture"],
    ("leaderboards", "table --plot x.exe"): ["'x.exe' is not the name of a picture"],
    ("sweeps", "dashboard fedlga/table4 dataset=fmnist scale=cpu --port -1"): ["--port -1 is not possible"],
    ("sweeps", "dashboard fedlga/table4 dataset=fmnist scale=cpu --port 65536"): ["--port 65536 is not possible"],
    ("datamodules", "fetch "): ["There is no data set ``"],
    ("datamodules", "list a\nb"): [r"There is no data set 'a\nb'"],
    ("leaderboards", "claims --paper a\nb"): [r"'a\nb' has a control character"],
}


@pytest.mark.parametrize(("program", "line"), TOOLS, ids=lambda text: text[:30])
def test_a_line_of_another_program(program, line, tmp_path):
    found = ended(program, line.split(" "), tmp_path)
    assert found.refused and found.fault() is None, str(found)
    assert [part for part in TOOLS[program, line] if part not in found.err] == []
    assert list(tmp_path.iterdir()) == []


def test_a_batch_larger_than_the_data_is_all_samples_of_a_device():
    small = ("rounds=2", "clients=6", "cohort=3")
    one, other = (bench(*small, f"batch_size={size}") for size in (2**63 - 1, 1437))
    assert one.result.weights_sha256 == other.result.weights_sha256
