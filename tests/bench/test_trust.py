"""A record runs fedbench's own code, the user's only when the command line names it; changed code or data is told."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from bench import trust
from bench.__main__ import main
from bench.main import command
from bench.metrics import ACCURACY
from bench.output import digests
from bench.prepare import fingerprints
from bench.record import FILES, Record, read, read_all
from datamodules.base import Loaded, Split

KEYS = ["logger=none", "clients=4", "cohort=2", "rounds=2", "epochs=1"]
ALGO = """
from pathlib import Path
from dataclasses import dataclass
from algorithms.base import Algorithm
Path("ran").touch()

@dataclass(frozen=True, kw_only=True)
class Half(Algorithm):
    def aggregate(self, server, updates, fed):
        return {"w": server["w"] + 0.5 * (updates.weight @ updates.delta)}
"""
DATA = """
from dataclasses import dataclass
import numpy as np, torch
from datamodules.base import Dataset, Loaded, Split

@dataclass(frozen=True, kw_only=True)
class Mine(Dataset):
    title = "mine"
    defaults = {"rounds": 1, "clients": 4, "cohort": 2, "epochs": 1, "batch_size": 5, "lr": 0.1, "target": 0.5,
                "normalise": False, "partition": {"name": "iid"}, "model": {"name": "linear"}}

    def available(self):
        return "here"

    def load(self):
        x = torch.from_numpy(np.load("PLACE", allow_pickle=False))
        y = torch.arange(len(x)) % 2
        return Loaded(Split(x, y), Split(x[:6], y[:6]), 2, (3,), "a file", 1.0, (0.0,), (1.0,))
"""


@pytest.fixture
def own(tmp_path):
    """A finished run with code and data of one's own, by a process that has forgotten both since."""
    (tmp_path / "half.py").write_text(ALGO)
    (tmp_path / "mine.py").write_text(DATA.replace("PLACE", str(tmp_path / "x.npy")))
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    assert command(["algo=./half.py", "dataset=./mine.py", *KEYS]) == 0
    (run,) = read_all(Path("runs"))
    forget(tmp_path)
    return run.folder


def forget(folder):
    trust._named.clear()
    (folder / "ran").unlink(missing_ok=True)
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def seal(folder, **changes):
    """As a forger would: every digest is right."""
    path = folder / "config.yaml"
    content = yaml.safe_load(path.read_text())
    del content["sha256"]
    for key, value in changes.items():
        content[key] = {**content[key], **value}
    path.write_text(digests.signed(yaml.safe_dump(content, sort_keys=False)))
    if (folder / digests.LIST).exists():
        (folder / digests.LIST).write_text(digests.listing(digests.sums(folder, FILES)))


def said(capsys):
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out + err


def test_a_record_with_code_of_ones_own_says_what_to_type_and_runs_nothing_before(own, tmp_path, capsys):
    assert main(["replay", str(own)]) == 2
    text = said(capsys)
    words = f"algo={tmp_path}/half.py:Half dataset={tmp_path}/mine.py:Mine"
    assert f"python -m bench replay {own} {words}." in text and not Path("ran").exists()
    assert main(["replay", str(own), *words.split()]) == 0 and Path("ran").exists()
    assert "identical: 2 rounds" in said(capsys)
    forget(tmp_path)
    (own / "result.json").unlink()
    assert command([f"resume={own}"]) == 2
    assert f"python bench.py resume={own} {words}." in said(capsys) and not Path("ran").exists()
    assert command([f"resume={own}", *words.split()]) == 0


def test_the_file_may_have_been_moved(own, tmp_path, capsys):
    (tmp_path / "there").mkdir()
    shutil.move(tmp_path / "half.py", tmp_path / "there" / "half.py")
    words = ["algo=there/half.py", "dataset=./mine.py"]
    assert main(["replay", str(own), *words]) == 0
    (own / "result.json").unlink()
    assert command([f"resume={own}", *words]) == 0


def test_code_that_has_changed_is_refused_by_resume_and_told_by_replay(own, tmp_path, capsys):
    (tmp_path / "half.py").write_text(ALGO.replace("0.5 *", "0.25 *"))
    words = ["algo=./half.py", "dataset=./mine.py"]
    assert main(["replay", str(own), *words]) == 1
    text = said(capsys)
    assert f"algo {tmp_path}/half.py:Half: the code differs from that of the record" in text
    assert "different: recorded weights" in text and "this is a bug" not in text
    (own / "result.json").unlink()
    assert command([f"resume={own}", *words]) == 2
    assert "cannot go on (algo" in said(capsys)


def test_data_that_have_changed_are_refused_by_resume_and_told_by_replay(own, tmp_path, capsys):
    x = np.load(tmp_path / "x.npy")
    x[20, 1] += 1e-3
    np.save(tmp_path / "x.npy", x)
    words = ["algo=./half.py", "dataset=./mine.py"]
    assert main(["replay", str(own), *words]) == 1
    text = said(capsys)
    assert "dataset mine: the training data differ from those of the record" in text
    assert "the test data differ" not in text and "this is a bug" not in text
    (own / "result.json").unlink()
    assert command([f"resume={own}", *words]) == 2
    assert "cannot go on (dataset mine: the training data differ" in said(capsys)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of fedbench's own code."""
    with chdir(tmp_path_factory.mktemp("finished")):
        assert command(["algo=fedavg", "dataset=digits", *KEYS]) == 0
        (run,) = read_all(Path("runs"))
        return run.folder.absolute()


@pytest.fixture
def plain(finished):
    """A copy of it, to be forged."""
    return shutil.copytree(finished, Path("runs") / finished.name)


EVIL = "from pathlib import Path\nPath('ran').touch()\n" + ALGO
TARGETS = {
    "a file as method": {"algo": {"name": "half", "_target_": "evil.py:Half"}},
    "a file under fedbench's name": {"algo": {"name": "fedavg", "_target_": "evil.py:Half"}},
    "a callable": {"algo": {"name": "fedavg", "_target_": "os.getcwd"}},
    "a callable of torch": {"dataset": {"name": "digits", "_target_": "torch.hub.load"}},
    "a module beside it": {"partition": {"name": "iid", "_target_": "evil.Half"}},
    "a function of fedbench": {"algo": {"name": "fedavg", "_target_": "bench.main.main"}},
    "a file as task": {"task": {"name": "half", "_target_": "evil.py:Half"}},
    "a method as task": {"task": {"name": "fedavg", "_target_": "algorithms.fedavg.FedAvg"}},
    "a data set as method": {"algo": {"name": "fedavg", "_target_": "datamodules.digits.Digits"}},
    "no text": {"algo": {"name": "fedavg", "_target_": ["x"]}},
    "a model's file": {"model": {"name": "custom", "target": "evil.py:Half", "args": {}}},
    "a model's package": {"model": {"name": "custom", "target": "evil.Half", "args": {}}},
}


@pytest.mark.parametrize("case", TARGETS)
def test_what_a_downloaded_record_names_is_not_run(case, plain, tmp_path, monkeypatch, capsys):
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    changes = {k: {n: v.replace("evil.py", f"{tmp_path}/evil.py") if isinstance(v, str) else v for n, v in c.items()}
               for k, c in TARGETS[case].items()}  # fmt: skip
    seal(plain, **changes)
    before = {path: path.read_bytes() for path in plain.rglob("*") if path.is_file()}
    assert main(["replay", str(plain)]) == 2
    (plain / "result.json").unlink()
    assert command([f"resume={plain}"]) == 2
    err = capsys.readouterr().err
    assert err.count("error: ") == 2 and "Traceback" not in err, err
    assert not Path("ran").exists()
    assert {path: content for path, content in before.items() if path.name != "result.json"} == {
        path: path.read_bytes() for path in plain.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("word", ["algo=fedavg", "lr=1", "algo=./nothing.py", "model.target=x.Y", "half"])
def test_replay_takes_no_other_words(word, plain, capsys):
    assert main(["replay", str(plain), word]) == 2
    assert said(capsys).count("error: ") == 1


FORGED = {
    "an accuracy": ("final_accuracy", 0.9999),
    "the best": ("best_accuracy", 0.9999),
    "the target": ("rounds_to_target", 1),
    "the metric": ("metric", asdict(ACCURACY) | {"higher": False}),
    "bytes": ("upload_bytes", 1),
    "dropped": ("dropped", 7),
    "diverged": ("diverged", {"round": 1, "client": 1, "what": "x"}),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_result_is_not_identical(case, plain, capsys):
    name, value = FORGED[case]
    content = json.loads((plain / "result.json").read_text()) | {name: value}
    (plain / "result.json").write_text(json.dumps(content))
    assert main(["replay", str(plain)]) == 2
    assert f"{plain}/result.json is not as it was written" in said(capsys)
    seal(plain)
    assert main(["replay", str(plain)]) == 1
    assert f"result.json has {name}" in said(capsys)


def test_forged_or_missing_rows_are_not_identical(plain, capsys):
    path = plain / "metrics.csv"
    lines = path.read_text().splitlines()
    place = lines[0].split(",").index("test_accuracy")
    cells = lines[1].split(",")
    cells[place] = str(float(cells[place]) + 0.05)
    path.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
    seal(plain)
    assert main(["replay", str(plain)]) == 1
    assert "from round 1 on: test_accuracy was" in said(capsys)
    path.unlink()
    assert main(["replay", str(plain)]) == 2
    assert f"{path} is missing" in said(capsys)
    seal(plain)
    assert main(["replay", str(plain)]) == 1
    assert "0 rounds are recorded, there are 2" in said(capsys)


def test_fingerprints_take_no_time_and_see_a_single_bit():
    x, y = torch.zeros(50_000, 784, dtype=torch.uint8), torch.zeros(50_000, dtype=torch.long)
    loaded = Loaded(Split(x, y), Split(x[:10], y[:10]), 10, (784,), "made", 1.0, (0.0,), (1.0,))
    config = {"dataset": {"name": "made"}}
    begun = time.perf_counter()
    before = fingerprints.found(config, loaded)
    assert time.perf_counter() - begun < 2
    x[-1, -1] = 1
    after = fingerprints.found(config, loaded)
    gaps = list(fingerprints.changes(config | {"fingerprints": before}, after))
    assert gaps == ["dataset made: the training data differ from those of the record"]
    assert list(fingerprints.changes(config, after)) == []


def test_groups_have_a_fingerprint_of_their_own():
    """A run recorded before a data set had groups goes on and is replayed."""
    y = torch.arange(10)
    config, test = {"dataset": {"name": "made"}}, Split(torch.zeros(10, 1), y)

    def found(groups):
        train = Split(test.x, y, groups=groups)
        return fingerprints.found(config, Loaded(train, test, 10, (1,), "made", 1.0, (0.0,), (1.0,)))

    without, with_, others = map(found, (None, y // 2, y // 5))
    assert with_["data"] == without["data"] | {"groups": with_["data"]["groups"]}
    gaps = ["dataset made: the groups differ from those of the record"]
    for before, now, expected in (
        (without, with_, []),
        (with_, with_, []),
        (with_, others, gaps),
        (with_, without, gaps),
    ):
        assert list(fingerprints.changes(config | {"fingerprints": before}, now)) == expected


def test_the_message_of_a_stop_has_the_words_to_go_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "half.py").write_text(ALGO)
    append = Record.append

    def stop(record, values):
        append(record, values)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "append", stop)
        assert command(["algo=./half.py", *KEYS]) == 130
    (run,) = read_all(Path("runs"))
    (line,) = [text for text in capsys.readouterr().out.splitlines() if text.startswith("Stopped")]
    assert line.endswith(f"To go on: python bench.py resume=runs/{run.id} algo={tmp_path}/half.py:Half")
    forget(tmp_path)
    assert command(line.partition("bench.py ")[2].split()) == 0
    assert read(run.folder).result.rounds == 2
