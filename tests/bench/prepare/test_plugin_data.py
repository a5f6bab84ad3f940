"""What a data set or a partition of the user's own gives: what cannot be trained on is a sentence, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.main import command
from bench.record import read_all
from tests.bench.test_plugins import HEAD, SMALL, one_sentence

DATA = {
    "labels too few": ("replace(d, train=Split(t.x, t.y[:-1]))", "1437 samples and 1436 labels for train"),
    "empty": ("replace(d, test=Split(t.x[:0], t.y[:0]))", "0 samples and 0 labels for test"),
    "other shape": ("replace(d, test=Split(d.test.x[:, :9], d.test.y))", r"samples of shape \[64\] and test .*\[9\]"),
    "wrong shape": ("replace(d, shape=(65,))", r"samples of shape \[64\] and shape=\(65,\)"),
    "NaN": ("bad(torch.nan)", "The training sample 7 of mine has the value nan at 3: load of .*mine.py:Mine has to"),
    "inf": ("bad(torch.inf)", "The training sample 7 of mine has the value inf"),
    "float64 beyond float32": ("bad(1e300)", "has the value 1e.300"),
    "NaN in test": ("replace(d, test=Split(bad(torch.nan).train.x, t.y))", "The test sample 7 of mine"),
    "std 0": ("replace(d, std=(0.0,))", r"std\[0\]=0.0: it has to be .* above 0"),
    "mean NaN": ("replace(d, mean=(float('nan'),))", "mean=.nan,."),
    "mean long": ("replace(d, mean=(0.1, 0.2))", "mean=.*64 finite numbers"),
    "scale": ("replace(d, scale=0.0)", "scale=0.0"),
    "classes": ("replace(d, classes=0)", "classes=0: it has to be a whole number of at least 1"),
    "too few classes": ("replace(d, classes=9)", "has the label 9"),
    "labels int32": ("replace(d, train=Split(t.x, t.y.int()))", "training labels of mine are torch.int32"),
    "numpy": ("replace(d, train=Split(t.x.numpy(), t.y))", "train.x of type ndarray: it has to be a torch.Tensor"),
    "groups too few": ("whose(t.y[:-1])", "train.groups, torch.int64 of shape .1436.: .*one number for each of 1437"),
    "groups float": ("whose(t.y.float())", "train.groups, torch.float32 .*: it has to be torch.int64"),
    "groups below 0": ("whose(t.y - 1)", "returned train.groups with -1 for sample .*: it has to be numbers from 0"),
    "groups listed": ("whose(t.y.tolist())", "train.groups of type list: it has to be a torch.Tensor"),
    "None": ("None", "load of .*mine.py:Mine returned NoneType: it has to be a datamodules.base.Loaded"),
    "exit": ("sys.exit(0)", "load of .*mine.py:Mine failed: SystemExit: 0"),
    "raises": ("1 / 0", "load of .*mine.py:Mine failed: ZeroDivisionError"),
}
MINE = """class Mine(Dataset):
    title = "mine"
    defaults: ClassVar = {{**Digits.defaults, {defaults}}}

    def available(self):
        return "here"

    def load(self):
        d = Digits().load()
        t = d.train
        def bad(value):
            x = t.x.double()
            x[7, 3] = value
            return replace(d, train=Split(x, t.y))
        def whose(groups):
            return replace(d, train=replace(t, groups=groups))
        return {found}
"""


@pytest.mark.parametrize("case", DATA)
def test_what_a_data_set_gives_is_refused(case: str, capsys) -> None:
    found, pattern = DATA[case]
    Path("mine.py").write_text(HEAD + MINE.format(found=found, defaults=""))
    one_sentence(capsys, ["dataset=./mine.py", *SMALL[1:]], pattern, 6)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("defaults", "pattern"),
    [
        ("'epoch': 3", "Unknown key in defaults of Mine in .*'epoch', nearest: epochs"),
        ("'partition': {'name': 'dirichlet', 'alhpa': 1}", "field of partition=dirichlet in defaults .*nearest: alpha"),
        ("'model': {'name': 'mlp', 'hiden': [3]}", "field of model=mlp in defaults of Mine .*nearest: hidden"),
        ("'rounds': 'many'", "rounds"),
    ],
)
def test_typos_in_defaults_are_refused(defaults: str, pattern: str, capsys) -> None:
    Path("mine.py").write_text(HEAD + MINE.format(found="d", defaults=defaults))
    one_sentence(capsys, ["dataset=./mine.py", "logger=none"], pattern)


DEALT = {
    "too few": ("np.array_split(order, clients - 1)", "deal of Mine in .*mine.py returned 3 parts: .* list of 4"),
    "too many": ("np.array_split(order, 2 * clients)", "returned 8 parts"),
    "an array": ("order", "returned ndarray"),
    "empty": ("[order[:0], *np.array_split(order, clients - 1)]", "no samples for client 0"),
    "out of range": ("np.array_split(order + 1, clients)", "the sample 1437 for client 3"),
    "negative": ("np.array_split(order - 1, clients)", "the sample -1 for client 0"),
    "twice": ("[np.zeros(2, int)] * clients", "the sample 0 more than once for client 0"),
    "2-D": ("[order[:4].reshape(2, 2)] * clients", r"int64 of shape \[2, 2\] for client 0"),
    "floats": ("[order / 2] * clients", "float64 of shape .1437. for client 0"),
    "lists": ("[[1, 2]] * clients", "list for client 0"),
    "None": ("None", "returned NoneType"),
    "exit": ("sys.exit(0)", "deal of .*mine.py:Mine failed: SystemExit: 0"),
    "labels": ("samples.labels.fill(0)", "deal of .*mine.py:Mine failed: ValueError: .*read-only"),
    "features": ("samples.features().fill(0)", "deal of .*mine.py:Mine failed: ValueError: .*read-only"),
    "groups": (
        "samples.groups",
        "dataset=digits does not say whose its samples are.*: take dataset=.*cifar100 by .*, or",
    ),
}
PARTITION = """class Mine(Partition):
    def deal(self, samples, clients, rng):
        order = np.arange(len(samples))
        return {}
"""


@pytest.mark.parametrize("case", DEALT)
def test_what_a_partition_deals_is_refused(case: str, capsys) -> None:
    found, pattern = DEALT[case]
    Path("mine.py").write_text(HEAD + PARTITION.format(found))
    one_sentence(capsys, ["partition=./mine.py", *SMALL], pattern, 6)
    assert not Path("runs").exists()


def test_devices_that_all_hold_the_same_are_mentioned(capsys) -> None:
    Path("mine.py").write_text(HEAD + PARTITION.format("[order] * clients"))
    assert command(["partition=./mine.py", *SMALL]) == 0
    assert "note       Every device holds the same 1437 samples.\n" in capsys.readouterr().out
    (run,) = read_all(Path("runs"))
    assert run.result and run.result.data["deviation"] == "Every device holds the same 1437 samples."
