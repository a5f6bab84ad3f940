"""Rows of transforms on the command line, and what one of the user's own does wrong: a sentence, exit code 2."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from bench import trust
from bench.__main__ import main
from bench.main import command
from bench.prepare import compose, forecast, registry
from bench.prepare.assemble import build
from bench.record import Record, read_all
from bench.run import run

SMALL = ["dataset=digits", "clients=4", "cohort=2", "rounds=2", "epochs=1", "logger=none"]
HALF = """from dataclasses import dataclass
import torch
from algorithms.uploads.base import Sent, Size, Transform

@dataclass(frozen=True, kw_only=True)
class Half(Transform):
    share: float = 0.5
"""
SEND = "    def send(self, values, memory, draw):\n        return "
FINE = SEND + "Sent(self.share * values)\n"
TARGETS = {"topk": "algorithms.uploads.topk.TopK", "quantise": "algorithms.uploads.quantise.Quantise"}


@pytest.fixture(autouse=True)
def half(tmp_path: Path) -> Path:
    path = tmp_path / "half.py"
    path.write_text(HALF + FINE)
    return path


def test_a_row_has_the_fields_of_all_its_transforms() -> None:
    assert compose.config([])["upload"] == {"name": "none"}
    words = ["upload=topk+quantise", "upload.bits=4"]
    assert compose.config(words)["upload"] == {
        "name": "topk+quantise",
        "_target_": [TARGETS["topk"], TARGETS["quantise"]],
        **{"fraction": 0.1, "error_feedback": True, "bits": 4, "stochastic": True},
    }
    with registry.borrowed():
        runs = compose.plan(["upload=none,topk,quantise+./half.py:Half"], multirun=True)
    assert [one.config["upload"]["name"] for one in runs] == ["none", "topk", "quantise+half"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    {
        "upload=tpk": "Unknown transform of uploads 'tpk', nearest: topk",
        "upload=topk+quantis": "Unknown transform of uploads 'quantis', nearest: quantise",
        "upload=topk+": "Unknown transform of uploads ''",
        "upload=topk+topk": "upload=topk+topk has topk twice",
        "upload=[topk,quantise]": "a row of transforms is upload=topk+quantise.",
        "upload.fraction=0.1": "upload=none has no fields, so upload.fraction cannot be set; add upload=topk.",
        "upload=topk upload.bits=4": "Unknown field of upload=topk 'bits'; choose from error_feedback, fraction.",
        "upload=topk upload.fraction=0": "upload.fraction=0.0 is not possible: it must be above 0 and at most 1.",
        "upload=quantise upload.bits=1": "upload.bits=1 is not possible: it must be between 2 and 24.",
        "upload=clip_noise upload.noise=-1": "upload.noise=-1.0 is not possible",
        "upload=./none.py": "There is no file",
        "upload=topk+./own.py": "would have two fields upload.fraction: give that of own another name.",
        "upload=./empty.py": "empty.py defines no transform of uploads: no class in it extends algorithms.uploads.base",
        "upload=./without.py": "Half in {}/without.py does not define send, which every transform of uploads needs.",
    }.items(),
)
def test_a_mistake_is_a_sentence(words: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "without.py").write_text(HALF)
    (tmp_path / "own.py").write_text(HALF.replace("Half", "Own").replace("share", "fraction") + SEND + "Sent(values)\n")
    assert command([*words.split(), *SMALL]) == 2
    assert sentence.format(tmp_path) in capsys.readouterr().err


WRONG = {
    "nothing": (SEND + "None\n", "send of .*half.py:Half returned None: it has to be a Sent."),
    "too few": (SEND + "Sent(values[1:])\n", "values = .*it has to be the 4810 numbers that `size` says are sent."),
    "not finite": (SEND + "Sent(values / 0)\n", "it has to be finite"),
    "another type": (SEND + "Sent(values.double())\n", "values = torch.float64.*it has to be torch.float32"),
    "in place": (SEND + "Sent(values.mul_(2))\n", "changed values in place"),
    "raises": (SEND + "Sent(values[10**9])\n", "send of .*half.py:Half failed: IndexError"),
    "memory": (
        SEND + 'Sent(values, memory={"left": values})\n',
        "returned a memory of 'left': it has to be one of nothing",
    ),
    "remembers": (FINE + '    remembers = "left"\n', "remembers of .* is 'left': it has to be a tuple of names"),
    "size": (
        FINE + "    def size(self, size):\n        return 4 * size.numbers\n",
        "size of .* returned 19240: .* a Size",
    ),
    "more": (FINE + "    def size(self, size):\n        return Size(2 * size.numbers)\n", "with at most 4810 numbers"),
    "places": (
        SEND + "Sent(values[:2], torch.tensor([1, 0]))\n    def size(self, size):\n        return Size(2)\n",
        "kept = other places: it has to be ascending places from 0 to 4809.",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_a_transform_returns_is_looked_at(what: str, half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body, sentence = WRONG[what]
    half.write_text(HALF + body)
    assert command(["upload=./half.py", *SMALL]) == 2
    text = capsys.readouterr().err
    assert re.search(sentence, text), text


def test_a_record_with_a_transform_of_ones_own_is_replayed_and_resumed_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    append = Record.append

    def stop(record: Record, values: dict[str, float | None]) -> None:
        append(record, values)
        signal.raise_signal(signal.SIGINT)

    words = ["upload=topk+./half.py", "upload.share=0.9", *SMALL]
    assert command([*words, "out=whole"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(Record, "append", stop)
        assert command(words) == 130
    (whole,), (part,) = (read_all(tmp_path / name) for name in ("whole", "runs"))
    named = f"upload=topk+{tmp_path}/half.py:Half"
    assert f"resume=runs/{part.id} {named}" in capsys.readouterr().out
    trust._named.clear()
    assert command([f"resume=runs/{part.id}"]) == 2
    assert f"resume=runs/{part.id} {named}." in capsys.readouterr().err
    assert command([f"resume=runs/{part.id}", named]) == 0
    (done,) = read_all(tmp_path / "runs")
    assert done.result and whole.result and done.result.weights_sha256 == whole.result.weights_sha256
    assert main(["replay", f"runs/{part.id}", named]) == 0
    (tmp_path / "half.py").write_text(HALF + SEND + "Sent(values)\n")
    assert main(["replay", f"runs/{part.id}", named]) == 1
    assert "upload.1 " in (text := capsys.readouterr().out) and "the code differs" in text


def test_the_clock_the_record_and_the_forecast_go_by_the_bytes_of_the_transforms() -> None:
    """One device at a time: bytes less are so much less time on its link."""
    words = ["clients=3", "cohort=1", "rounds=4", "epochs=1", "devices.up=0.01", "devices.down=1", "logger=none"]
    plain, sent = (run(compose.config([*words, f"upload={upload}"])) for upload in ("none", "quantise"))
    saved = 4 * (3 * 4810 - 4)
    assert plain.upload_bytes - sent.upload_bytes == saved and plain.download_bytes == sent.download_bytes
    assert plain.virtual_seconds - sent.virtual_seconds == pytest.approx(saved / 1e4)
    assert forecast.measure(build(compose.config([*words, "upload=quantise"]))).upload_bytes == sent.upload_bytes
