"""What a task cannot be combined with, and what a task of one's own must not do, in a sentence."""

import re
from pathlib import Path

import pytest

from bench.main import command
from bench.record import read_all

REFUSED = {
    "dataset=diabetes target=-1": "target=-1.0 is not possible: it must be a finite number above 0",
    "dataset=digits target=90": "target=90.0 is not possible: it must be between 0 and 1",
    "dataset=characters target=0": "target=0.0 is not possible",
    "dataset=diabetes partition=dirichlet": "dirichlet is not possible with task=regression: it deals by class",
    "dataset=diabetes algo=fedgh": "algo=fedgh is not possible with task=regression",
    "dataset=diabetes algo=fed2a": "without which algo.rce=false does",
    "dataset=diabetes engine=native": "its loss is no cross-entropy",
    "dataset=diabetes engine=chain": "its loss is no cross-entropy",
    "dataset=diabetes task=classification target=0.5": "labels of diabetes are torch.float32 of shape [354]",
    "dataset=digits task=regression partition=iid": "with this task labels are real numbers",
    "dataset=diabetes task=ranking": "Unknown task 'ranking'; choose from auto, classification,",
    "dataset=diabetes task.delta=1": "task=auto has no fields, so task.delta cannot be set",
}
OWN = """
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from bench.metrics import Metric
from bench.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Mine(Task):
    metric: ClassVar = Metric("mae", "mean absolute error", higher=False)
    by_class: ClassVar = False

    def loss(self, outputs, y, reduction="none"):
        return nn.functional.l1_loss(outputs[:, 0], y, reduction=reduction)

    def score(self, outputs, y):
        return (outputs[:, 0] - y).abs()

    def value(self, mean, unit):
        return mean * unit
"""
BROKEN = {
    "a loss for the batch": (
        "reduction=reduction",
        'reduction="mean"',
        "loss of .* returned shape .*one number for",
    ),
    "no sum": ("reduction=reduction", 'reduction="none"', 'with reduction="sum": it has to be the sum'),
    "two scores": (".abs()\n", ".abs()[:2]\n", "score of .*returned shape \\[2\\] for 88 samples"),
    "infinite": (".abs()\n", ".abs() / 0\n", "score of .*not finite"),
    "no value": ("return mean * unit", "return None", "value of .*returned NoneType"),
    "detached": ("outputs[:, 0], y,", "outputs[:, 0].detach(), y,", "do not depend on the outputs"),
    "raises": ("(outputs[:, 0] - y)", "outputs[:, 1]", "score of .* failed: IndexError"),
    "no metric": ('Metric("mae", "mean absolute error", higher=False)', '"mae"', "has to be a bench.metrics.Metric"),
    "a metric of no name": ('"mae"', '"M A E"', "name='M A E' of a metric: it has to be of small letters"),
    "no score": ("def score", "def points", "does not define score, which every task needs"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_a_task_is_refused(words, refused):
    refused([*words.split(), "logger=none"], [REFUSED[words]])


@pytest.mark.parametrize("case", BROKEN)
def test_a_task_of_ones_own_that_does_not_work_is_refused_by_its_hook(case, capsys):
    old, new, pattern = BROKEN[case]
    assert old in OWN
    Path("mine.py").write_text(OWN.replace(old, new))
    assert command(["dataset=diabetes", "task=./mine.py", "rounds=1", "logger=none"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and err.count("error: ") == 1
    assert re.search(pattern, err), err


def test_a_task_of_ones_own_is_recorded_and_resumed_by_its_name(capsys):
    Path("mine.py").write_text(OWN)
    assert command(["dataset=diabetes", "task=./mine.py", "rounds=2", "target=50", "logger=none"]) == 0
    (run,) = read_all(Path("runs"))
    assert run.metric.label == "mean absolute error" and "final_mae" in (run.folder / "result.json").read_text()
    assert run.config["task"] == {"name": "mine", "_target_": f"{Path.cwd()}/mine.py:Mine"}
    assert "mean absolute error" in capsys.readouterr().out
