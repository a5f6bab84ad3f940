"""Every file of a finished and of an interrupted run, damaged in every way, under every command that reads it: one
sentence, or an outcome that is not harmed; no traceback, and no difference that nobody notices.

What cannot be noticed: a changed digit in rows of a run that has not ended yet, by a command that only shows them; a
resume compares them with its checkpoint.
"""

import math
import random
import shutil
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.checkpoint import AtomicCheckpoint, checkpoint_path
from bench.errors import UserError
from bench.main import command
from bench.record import load, read
from leaderboards import __main__ as leaderboards

FINISHED = ("config.yaml", "metrics.csv", "timeline.csv", "forecast.json", "result.json", "SHA256SUMS")
STOPPED = ("config.yaml", "metrics.csv", "timeline.csv", "forecast.json", "checkpoints/last.ckpt")
SLOW = pytest.mark.slow


def flipped(place):
    def damage(path):
        content = bytearray(path.read_bytes())
        content[int(place * (len(content) - 1))] ^= 4
        path.write_bytes(content)

    return damage


def folder(path):
    path.unlink()
    path.mkdir()


WAYS = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "short by one": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "first bit": flipped(0.0),
    "middle bit": flipped(0.5),
    "late bit": flipped(0.95),
    "last bit": flipped(1.0),
    "deleted": Path.unlink,
    "a folder": folder,
    "noise": lambda path: path.write_bytes(random.Random(0).randbytes(3000)),
    "a list": lambda path: path.write_text("[1, 2]\n"),
    "a table": lambda path: path.write_text("a,b\n1,2\n"),
    "a mapping": lambda path: path.write_text('{"algo": {"name": "x"}, "format": 3, "id": 1}\n'),
    "deep": lambda path: path.write_text("[" * 100_000),
}


def verb(*words):
    def call(run, monkeypatch):
        monkeypatch.setattr(
            "sys.argv", ["leaderboards", *(str(word).format(run=run, runs=run.parent) for word in words)]
        )
        return leaderboards.main()

    return call


def loaded(run, monkeypatch):
    """As a program would, and what it got."""
    try:
        table, rounds = load(run.parent)
    except UserError:
        return 2
    assert list(table["id"]) == [run.name] and len(rounds) == len(read(run).rows)
    return 0


COMMANDS = {
    "replay": lambda run, _: main(["replay", str(run)]),
    "timeline": lambda run, _: main(["timeline", str(run), "--png", "x.png"]),
    "resume": lambda run, _: command([f"resume={run}"]),
    "add": verb("add", "{run}"),
    "table": verb("table", "--runs", "{runs}"),
    "load": loaded,
}


@pytest.fixture
def damaged(made, tmp_path, monkeypatch, capsys):
    """Damages a file of a copy of a run, gives it to a command, and returns the exit code and what was said."""
    monkeypatch.setattr("leaderboards.add.add_what_may.__defaults__", (tmp_path / "results", False))

    def check(kind, name, way, call):
        (source,) = (made / kind).iterdir()
        run = tmp_path / "runs" / "one"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(source, run)
        WAYS[way](run / name)
        code = COMMANDS[call](run, monkeypatch)
        out, err = capsys.readouterr()
        assert "Traceback" not in err, err
        assert code in (0, 2), (code, out, err)
        assert code == 0 or call == "load" or err.count("error: ") == 1, err
        return run, code, out + err

    return check


def reference(made):
    (whole,) = (made / "finished").iterdir()
    return read(whole)


def figures(run):
    keys = ("round", "test_accuracy", "test_loss", "virtual_seconds", "bytes_up", "train_loss")
    return [[0.0 if math.isnan(row[key]) else row[key] for key in keys] for row in run.rows]


@pytest.mark.parametrize("name", FINISHED)
@pytest.mark.parametrize("call", ["timeline", "add", "table", "load", pytest.param("resume", marks=SLOW), "replay"])
def test_a_damaged_finished_run(call, name, damaged, made):
    """Without result.json it has not ended, and a resume makes it again; everything else is a sentence, or the run is
    named as skipped."""
    for way in WAYS:
        run, code, text = damaged("finished", name, way, call)
        what = (call, name, way, text)
        if name == "result.json" and way == "deleted":
            assert code == 0 or call in ("replay", "add"), what
            if call == "resume":
                assert read(run).result.weights_sha256 == reference(made).result.weights_sha256
        elif (name, way) == ("SHA256SUMS", "short by one"):  # its last line break
            assert code == 0 or call in ("resume", "add"), what
        elif call == "table":
            assert code == 2 and ("skipped" in text or "There are no runs" in text), what
        else:
            assert code == 2, what


@pytest.mark.parametrize("call", [pytest.param("timeline", marks=SLOW), "add", "table", "load", "replay"])
def test_what_reads_a_damaged_interrupted_run(call, damaged):
    for name in STOPPED:
        for way in WAYS:
            damaged("stopped", name, way, call)


@pytest.mark.slow
@pytest.mark.parametrize("name", STOPPED)
def test_a_damaged_interrupted_run_is_refused_or_ends_as_if_it_had_not_been(name, damaged, made):
    whole = reference(made)
    for way in WAYS:
        run, code, _ = damaged("stopped", name, way, "resume")
        if code == 0:
            again = read(run)
            assert again.result.weights_sha256 == whole.result.weights_sha256, (name, way)
            assert figures(again) == figures(whole), (name, way)
            jobs = [(folder / "timeline.csv").read_text() for folder in (run, whole.folder)]
            assert jobs[0] == jobs[1], (name, way)


def test_a_bit_anywhere_in_a_checkpoint_is_noticed(made, tmp_path):
    (source,) = (made / "stopped").iterdir()
    content, path = checkpoint_path(source).read_bytes(), tmp_path / "last.ckpt"
    rng, silent = random.Random(0), []
    for place in [0, len(content) - 1, *rng.sample(range(len(content)), 300)]:
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :])
        try:
            state = AtomicCheckpoint().load_checkpoint(path)
        except UserError:
            continue
        silent.append((place, state["federation"]["format"]))  # its seal is gone, which on_load_checkpoint refuses
    assert all(place >= len(content) - 73 for place, _ in silent)


FOREIGN = {
    "another program": "name: x\n",
    "a text": "algo: fedavg\n",
    "half a run": "algo: {name: fedavg}\ndataset: 3\nseed: x\n",
    "a newer version": "format: 99\nalgo: {name: fedavg}\n",
    "not text": b"\xff\xfe",
    "tag": "!!python/object/apply:os.system ['touch ran']\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_folder_breaks_nothing(name, made, tmp_path, monkeypatch, capsys):
    (source,) = (made / "finished").iterdir()
    shutil.copytree(source, tmp_path / "runs" / "one")
    (tmp_path / "runs" / "other").mkdir()
    content = FOREIGN[name]
    path = tmp_path / "runs" / "other" / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert COMMANDS["table"](tmp_path / "runs" / "one", monkeypatch) == 0
    out, err = capsys.readouterr()
    assert "fedavg" in out and err.count("skipped") == 1 and "runs/other" in err
    assert COMMANDS["load"](tmp_path / "runs" / "one", monkeypatch) == 0
    assert capsys.readouterr().err.count("skipped") == 1 and not Path("ran").exists()
