"""algo=./mine.py, dataset=./mine.py, partition=./mine.py: a class in a file outside the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import own_code, trust
from bench.errors import UserError
from bench.main import command
from bench.prepare import compose, own_files, registry
from bench.record import read_all

ALGO = """
from dataclasses import dataclass
from algorithms.base import Algorithm

@dataclass(frozen=True, kw_only=True)
class Half(Algorithm):
    '''A method of my own.'''

    share: float = 0.5

    def aggregate(self, server, updates, fed):
        return {"w": server["w"] + self.share * (updates.weight @ updates.delta)}
"""
DATA = """
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datamodules.base import Dataset
from datamodules.digits import Digits
from datamodules.partition import Partition
import numpy as np

@dataclass(frozen=True, kw_only=True)
class Few(Dataset):
    title = "the digits again"
    defaults: ClassVar = {**Digits.defaults, "rounds": 2, "clients": 4, "cohort": 2, "partition": {"name": "iid"}}
    source: str = "auto"

    def available(self):
        return "here"

    def load(self):
        return Digits().load()

@dataclass(frozen=True, kw_only=True)
class Blocks(Partition):
    reverse: bool = False

    def deal(self, samples, clients, rng):
        order = np.arange(len(samples))[::-1] if self.reverse else np.arange(len(samples))
        return np.array_split(order, clients)
"""
SMALL = ["clients=4", "cohort=2", "rounds=1", "logger=none"]


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(ALGO)
    (tmp_path / "data.py").write_text(DATA)


def jobs(*argv: str) -> list[dict[str, Any]]:
    with registry.borrowed():
        return [run.config for run in compose.plan(argv, multirun=True)]


def test_the_record_names_file_and_class_and_what_was_typed(tmp_path: Path) -> None:
    typed = ["algo=./half.py", "algo.share=0.25", *SMALL]
    assert command(typed) == 0
    (run,) = read_all(tmp_path / "runs")
    assert run.config["algo"] == {"name": "half", "_target_": f"{tmp_path}/half.py:Half", "share": 0.25}
    assert run.config["command"] == "python bench.py " + " ".join(typed)
    assert run.result and run.result.algo == "half" and run.folder.name.split("-")[2] == "half"


def test_one_command_mixes_files_and_names() -> None:
    made = jobs("algo=fedavg, ./half.py,half.py:Half", "seed=1")
    assert [config["algo"]["name"] for config in made] == ["fedavg", "half", "half"]
    assert [config["algo"]["name"] for config in jobs("algo=choice(./half.py,fedprox)")] == ["half", "fedprox"]
    assert [config["algo"]["share"] for config in jobs("algo=./half.py", "algo.share=0.1,1")] == [0.1, 1.0]


def test_data_and_partition_from_one_file() -> None:
    (config,) = jobs("dataset=./data.py")
    assert config["rounds"] == 2 and config["partition"]["name"] == "iid" and config["protocol"] == "none"
    (config,) = jobs("dataset=./data.py", "partition=./data.py", "partition.reverse=true")
    assert config["partition"] == {"name": "blocks", "reverse": True, "_target_": f"{Path.cwd()}/data.py:Blocks"}
    parts = registry.create(config["partition"]).split(
        registry.create(config["dataset"]).load().train.y.numpy(), 4, None
    )
    assert parts[3][0] == 0 and parts[0][-1] == 1436


def test_the_field_of_a_partition_of_ones_own_without_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["partition=./data.py", "partition.alpha=1"]) == 2
    assert "Unknown field of partition=blocks 'alpha'" in capsys.readouterr().err


def test_a_users_classes_are_forgotten_after_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    auto = registry.twin("partition", "auto")
    before = {group: list(registry.classes(group)) for group in registry.BASES}
    assert command(["algo=./half.py", "partition=./data.py", "--help"]) == 0
    out = capsys.readouterr().out
    assert "A method of my own [algo.share=0.5]" in out and "blocks" in out and "./file.py:Name" in out
    assert {group: list(registry.classes(group)) for group in registry.BASES} == before
    assert registry.twin("partition", "auto") is auto
    assert command(["algo=half"]) == 2 and "Unknown algorithm 'half'" in capsys.readouterr().err


def test_resume_loads_the_file_again_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["algo=./half.py", "dataset=./data.py", "logger=none", "out=there"]) == 0
    (run,) = read_all(tmp_path / "there")
    (run.folder / "result.json").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert command([f"resume={run.folder}", "algo=../half.py"]) == 0
    (again,) = read_all(tmp_path / "there")
    assert run.result and again.result and again.result.weights_sha256 == run.result.weights_sha256
    (run.folder / "result.json").unlink()
    (tmp_path / "half.py").write_text(ALGO.replace("share", "part"))
    assert command([f"resume={run.folder}"]) == 2
    assert "Unknown field of" in capsys.readouterr().err
    (tmp_path / "half.py").unlink()
    assert command([f"resume={run.folder}"]) == 2
    assert f"There is no file {tmp_path}/half.py" in capsys.readouterr().err


def test_resume_with_the_same_file_is_no_contradiction_with_another_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "third.py").write_text(ALGO.replace("Half", "Third"))
    folder = tmp_path / "runs/a"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(jobs("algo=./half.py")[0]))
    assert command(["resume=runs/a", "algo=./third.py"]) == 2
    assert "algo=half, not third" in capsys.readouterr().err


def test_the_text_of_a_file_is_executed_once_and_anew_after_a_change(tmp_path: Path) -> None:
    path = tmp_path / "half.py"
    trust.name(str(path))
    assert own_code.load_file(path) is own_code.load_file(path)
    before = own_code.load(f"{path}:Half")
    path.write_text(ALGO.replace("0.5", "0.75"))
    assert registry.defaults(before) == {"share": 0.5}
    assert registry.defaults(own_code.load(f"{path}:Half")) == {"share": 0.75}
    assert not (tmp_path / "__pycache__").exists()


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_half.py").write_text("SHARE = 0.125\n")
    (tmp_path / "half.py").write_text("from beside_half import SHARE\n" + ALGO.replace("= 0.5", "= SHARE"))
    assert jobs("algo=./half.py")[0]["algo"]["share"] == 0.125


HEADER = "from dataclasses import dataclass\nfrom algorithms.base import Algorithm\n"
DATASET = "from dataclasses import dataclass\nfrom datamodules.base import Dataset\n"
FROZEN = "@dataclass(frozen=True, kw_only=True)\n"
BAD: dict[str, tuple[str, str, list[str]]] = {
    "missing": ("", "algo=./nothing.py", ["There is no file", "nothing.py."]),
    "a folder": ("", "algo=./folder.py", ["Cannot read", "folder.py"]),
    "syntax": ("x = 1\ndef f(:\n", "algo=./bad.py", ["SyntaxError: invalid syntax", "(line 2 of bad.py)"]),
    "exception": ("x = 1\n\ny = 1 / 0\n", "algo=./bad.py", ["ZeroDivisionError", "(line 3 of bad.py)"]),
    "exit": ("import sys\nsys.exit('no')\n", "algo=./bad.py", ["SystemExit: no", "(line 2 of bad.py)"]),
    "missing import": ("import nowhere\n", "algo=./bad.py", ["No module named 'nowhere'", "(line 1 of bad.py)"]),
    "empty": ("", "algo=./bad.py", ["bad.py defines no algorithm", "extends algorithms.base.Algorithm"]),
    "only imported": ("from algorithms.fedavg import FedAvg\n", "algo=./bad.py", ["defines no algorithm"]),
    "of another group": (ALGO, "dataset=./bad.py", ["defines no data set", "datamodules.base.Dataset"]),
    "several": (ALGO + ALGO.replace("Half", "Other"), "algo=./bad.py", ["several (Half, Other)", "algo=./bad.py:Half"]),
    "not there": (ALGO, "algo=./bad.py:Halve", ["Unknown algorithm in", "'Halve'", "choose from Half"]),
    "built-in": (
        ALGO.replace("Half", "FedAvg"),
        "algo=./bad.py",
        ["would be algo=fedavg, which is algorithms.fedavg.FedAvg already"],
    ),
    "two files": (ALGO, "-m algo=./half.py,./bad.py", ["would be algo=half", "half.py:Half already"]),
    "not a dataclass": (HEADER + "class Bad(Algorithm):\n    x: int = 1\n", "algo=./bad.py", ["is not a dataclass"]),
    "not frozen": (HEADER + "@dataclass\nclass Bad(Algorithm):\n    x: int = 1\n", "algo=./bad.py", ["non-frozen"]),
    "no default": (HEADER + FROZEN + "class Bad(Algorithm):\n    x: int\n", "algo=./bad.py", ["no default for x"]),
    "type unknown": (
        "from __future__ import annotations\n" + HEADER + FROZEN + "class Bad(Algorithm):\n    x: Nought = 1\n",
        "algo=./bad.py",
        ["Bad in", "cannot be an option", "'Nought'"],
    ),
    "wrong value": (
        ALGO + "\n    def __post_init__(self):\n        raise ValueError('no share')\n",
        "algo=./bad.py",
        ["no share."],
    ),
    "data set": (DATASET + FROZEN + "class Bad(Dataset):\n    title = 'x'\n", "dataset=./bad.py", ["defaults, load"]),
    "defaults": (DATA.replace('"rounds"', '"round"'), "dataset=./bad.py", ["'round'", "nearest: rounds"]),
    "defaults' group": (
        DATA.replace('{"name": "iid"}', '"iid"'),
        "dataset=./bad.py",
        ["partition='iid': write it as {'name': 'iid'}"],
    ),
    "defaults' option": (
        DATA.replace('"iid"', '"iod"'),
        "dataset=./bad.py",
        ["Unknown partition in the data set's defaults 'iod', nearest: iid"],
    ),
    "partition": (
        "from dataclasses import dataclass\nfrom datamodules.partition import Partition\n"
        + FROZEN
        + "class Bad(Partition):\n    pass\n",
        "partition=./bad.py",
        ["does not define deal"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(case: str, tmp_path: Path, refused) -> None:
    text, line, words = BAD[case]
    (tmp_path / "bad.py").write_text(text)
    (tmp_path / "folder.py").mkdir()
    refused(line.split(), words, silent=True)


def test_the_target_of_a_record_that_is_gone() -> None:
    with pytest.raises(UserError, match=r"no algorithms\.gone\.Gone"):
        registry.create({"name": "gone", "_target_": "algorithms.gone.Gone"})


def test_a_folder_that_hydra_cannot_read_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "a=b (1), it's"
    odd.mkdir()
    monkeypatch.chdir(odd)
    (config,) = jobs("model=mlp", "model.hidden=[8]", "algo=../half.py")
    assert config["algo"]["_target_"] == f"{odd}/../half.py:Half"
    text = own_files.arguments(["model.target=./net.py:Net"])[0]
    assert _value(text) == f"{odd}/net.py:Net"


def _value(text: str) -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_overrides([text])[0].value()
