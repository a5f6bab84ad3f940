"""Too little memory or disk, and what a process of its own shows: nothing that was written is lost, one sentence."""

import errno
import os
import resource
import subprocess
from pathlib import Path

import pytest

from bench.errors import of_machine
from bench.main import command
from bench.prepare import budget
from bench.record import Record, read, read_all
from tests.running import process

CKPT = "checkpoints/last.ckpt"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("algo=scaffold", ["the memory of 20 devices", "10 trained models", "but 1.1 MB are there"]),
        ("algo=scaffold cohort=1", ["fewer clients, a smaller model, or a method without memory on the devices"]),
        ("algo=fedasync engine.batch=1", ["20 versions in flight", "concurrency"]),
        ("algo=fedavg aggregation=cached cohort=1", ["every device's last model", "aggregation=arrived"]),
        ("algo=fedavg momentum=0.5", ["training 10 at a time", "a smaller"]),
    ],
)
def test_a_run_that_does_not_fit_into_memory(line, words, refused, monkeypatch):
    monkeypatch.setattr(budget, "available", lambda device: 1e6)
    monkeypatch.setattr(budget, "PROGRAM", 0)
    refused([*line.split(), "model.hidden=[400]", "logger=none"], ["would need about", "of memory", *words])


def test_a_run_that_does_not_fit_onto_the_disk(refused, monkeypatch):
    monkeypatch.setattr(budget, "free_disk", lambda out: 1e5)
    words = ["would need about", "of disk space", "checkpoints", "but 0.1 MB are there", "(key out)"]
    refused(["algo=scaffold", "logger=none"], words)


def one_error(err):
    """Progress may stand above the sentence."""
    lines = err.splitlines()
    assert "Traceback" not in err and [line.startswith("error: ") for line in lines].count(True) == 1
    assert lines[-1].startswith("error: "), err
    return lines[-1]


@pytest.mark.parametrize("name", ["metrics.csv", f"{CKPT}.tmp", "result.json.tmp"])
def test_a_full_disk_ends_a_run_in_a_sentence_and_it_can_go_on(name, small, capsys, monkeypatch):
    """/dev/full is a disk without room: writing to it fails in the kernel."""
    truncate = Record.truncate

    def full(record, rounds):
        truncate(record, rounds)
        (record.folder / name).parent.mkdir(exist_ok=True)
        (record.folder / name).symlink_to("/dev/full")

    monkeypatch.setattr(Record, "truncate", full)
    assert command(small) == 2
    sentence = one_error(capsys.readouterr().err)
    (run,) = Path("runs").iterdir()
    if name == "metrics.csv":
        (run / name).unlink()  # reading /dev/full never ends
    assert f"Cannot write {run / name.removesuffix('.tmp')}: No space left on device" in sentence
    assert read_all(Path("runs"))[0].status == "interrupted"
    rows = {"metrics.csv": 0, f"{CKPT}.tmp": 1, "result.json.tmp": 4}[name]
    assert len(Record.reopen(run).rows) == rows
    assert not list(run.rglob("*.tmp"))


def test_a_disk_that_is_full_from_the_start_leaves_no_folder(small, capsys, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bench.files.os.fsync", full)
    assert command(small) == 2
    assert "config.yaml: No space left on device" in one_error(capsys.readouterr().err)
    assert list(Path("runs").iterdir()) == []


def test_no_room_after_some_rounds_says_what_is_kept_and_resume_makes_it_whole(small, tmp_path):
    """A limit on the size of files is a full disk as far as the program can tell."""
    code = (
        "import resource, sys; from bench.main import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500)); main(sys.argv[1:])"
    )
    done = process("-B", "-c", code, *small, "checkpoint_seconds=1000", "rounds=30", f"out={tmp_path / 'runs'}")
    assert done.returncode == 2, done.stderr
    (run,) = read_all(tmp_path / "runs")
    kept = len(run.rows)
    assert 2 < kept < 30 and run.status == "interrupted"
    sentence = one_error(done.stderr)
    assert f"Cannot write {run.folder}/" in sentence and "File too large; there is no checkpoint yet" in sentence
    assert f"python bench.py resume={run.folder}" in sentence
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert command([f"resume={run.folder}"]) == 0 and len(read(run.folder).rows) == 30


@pytest.mark.parametrize("megabytes", [100, 700])
def test_too_few_addresses_to_load_the_libraries_are_a_sentence(megabytes):
    done = process("bench.py", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20,) * 2))
    assert done.returncode == 2 and f"ulimit -v leaves {megabytes} MB" in one_error(done.stderr)


NO_ROOM = "libtorch_cpu.so: failed to map segment from shared object"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOMEM, "Cannot allocate memory"), MemoryError(), ImportError(NO_ROOM)]
)
def test_memory_that_runs_out_anywhere_is_a_sentence(error):
    assert "There is not enough memory" in str(of_machine(error))


def test_refusals_do_not_pay_for_lightning(runs):
    lines = [
        ["algo=fedavgg"],
        ["cohort=99"],
        ["algo=fedprox", "algo.mu=-1"],
        ["resume=runs/finished"],
        ["out=/dev/null/x"],
        ["partition=classes", "clients=1000"],
        ["model.hidden=[9999999999]"],
    ]
    code = (
        f"import sys; from bench.main import command; codes = [command(line) for line in {lines}]; command(['--help']);"
        "print('loaded', *sorted({'pytorch_lightning', 'torchvision', 'wandb'} & set(sys.modules)), *codes)"
    )
    done = process("-c", code)
    assert done.stdout.splitlines()[-1] == "loaded" + " 2" * len(lines)
    assert done.stderr.count("error: ") == done.stderr.count("\n") == len(lines)


@pytest.mark.parametrize("words", [["-m", "datamodules", "list"], ["bench.py", "--help"]])
def test_a_reader_that_goes_away_is_no_error(words):
    read, write = os.pipe()
    os.close(read)
    try:
        done = process(*words, capture_output=False, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.returncode == 141 and done.stderr == ""
