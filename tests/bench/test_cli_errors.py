"""Bad input: one sentence with the key, the value and what is allowed; exit code 2; every file as it was before."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch

from bench.__main__ import main as bench_tools
from bench.errors import UserError
from bench.prepare import check, compose, registry
from datamodules.__main__ import main as data_tools
from tests.running import process

LINES = {
    # names, with the nearest that exist
    "algo=fedproxx": ["Unknown algorithm 'fedproxx'", "nearest: fedprox"],
    "dataset=digitz": ["Unknown data set 'digitz'", "nearest: digits"],
    "model=mpl": ["Unknown model 'mpl'", "mlp"],
    "partition=dirichle": ["Unknown partition 'dirichle'", "nearest: dirichlet"],
    "protocol=fedlgaa": ["Unknown protocol 'fedlgaa'", "nearest: fedlga"],
    "devices=slow": ["Unknown device population 'slow'", "equal", "mixed"],
    "engine=turbo": ["Unknown engine 'turbo'", "eager"],
    "logger=wandbb": ["Unknown logger 'wandbb'", "wandb"],
    "engine=cohort": ["Unknown engine 'cohort'", "vmap"],
    "round=3": ["Unknown key 'round'", "nearest: rounds"],
    "+extra=1": ["Unknown key 'extra'"],
    "algo=fedprox algo.nu=1": ["Unknown field of algo=fedprox 'nu'", "choose from mu"],
    "algo.nu=1": ["algo=fedavg has no fields"],
    "algo.name=x": ["algo=fedavg has no fields"],
    "algo._target_=os.system": ["algo=fedavg has no fields"],
    "dataset.root=x": ["Unknown field of dataset=digits 'root'"],
    "devices.speed=1": ["Unknown field of devices=auto 'speed'", "spread"],
    "model=linear model.hidden=[3]": ["model=linear has no fields"],
    "protocol=fedlga protocol.home=[digits]": ["protocol=fedlga has no fields"],
    # syntax
    "rounds": ["'rounds' is not key=value"],
    "fedavg": ["'fedavg' is not key=value, as in algo=fedavg"],
    "algo = fedavg": ["'algo' is not key=value (without blanks)"],
    "rounds=[1": ["'rounds=[1' is not key=value", "quotes"],
    "lr=0.1=2": ["'lr=0.1=2' is not key=value"],
    "lr=${nope}": ["Interpolation key 'nope' not found"],
    "lr=???": ["lr"],
    "+lr=1": ["write lr=..."],
    "~lr": ["write lr=..."],
    "algo@x=fedavg": ["'algo@x=fedavg' is not key=value", "write algo=..."],
    "--fast": ["Unrecognized arguments: --fast (keys have no dashes: algo=scaffold)"],
    "--resolve": ["--cfg"],
    "--cfg job --package x": ["not supported"],
    "--config-dir /tmp": ["not supported"],
    "--experimental-rerun x": ["not supported"],
    "--info config": ["not supported"],
    "--cfg job lr=x": ["lr=x"],
    "--shell-completion": ["install=SHELL"],
    "hydra.run.dir=x": ["Hydra's own settings are fixed"],
    "hydra/launcher=slurm": ["Hydra's own settings are fixed"],
    # types
    "rounds=ten": ["rounds=ten: 'ten' is not a whole number."],
    "rounds=1.5": ["rounds=1.5", "whole number"],
    "rounds=true": ["rounds=true"],
    "engine.workers=two": ["engine.workers=two"],
    "lr=fast": ["lr=fast", "not a number"],
    "partition.alpha=x": ["partition.alpha=x: 'x' is not a number."],
    "normalise=maybe": ["normalise=maybe", "true or false"],
    "model.hidden=64": ["model.hidden=64"],
    "algo=fedprox algo.mu=big": ["algo.mu=big"],
    "algo=fedprox algo.mu=[1]": ["algo.mu=[1]", "not a number"],
    "algo=fedlga algo.scale=[1]": ["scale must be float or str"],
    "algo=fedlga algo.scale=true": ["scale must be float or str"],
    # values; VALUES and the bounds of methods below have the rest
    "rounds=0": ["rounds=0 is not possible: it must be at least 1"],
    "lr=nan": ["lr=nan is not possible: it must be a finite number above 0."],
    "devices.rho=1.1": ["devices.rho=1.1", "between 0 and 1"],
    "model.hidden=[0]": ["model.hidden=[0]"],
    "engine.batch=many": ["engine.batch=many"],
    "partition=classes partition.per_client=0": ["partition.per_client=0"],
    "partition=classes partition.imbalance=0.5": ["partition.imbalance=0.5"],
    "algo=fedprox algo.mu=nan": ["algo.mu=nan", "at least 0"],
    "algo=fedprox algo.mu=-1e-6": ["algo.mu=-1e-06", "at least 0"],
    "algo=fedlga algo.gamma=1": ["algo.gamma=1.0", "at least 0 and below 1"],
    "algo=fedlga algo.scale=nan": ["algo.scale=nan", "a finite number"],
    "algo=fedlga algo.gradient=first": ["algo.gradient is update, last or gap"],
    "algo=fedasync algo.alpha=0": ["algo.alpha=0.0", "above 0 and at most 1"],
    "algo=fedasync algo.staleness=linear": ["const, poly or hinge", "linear"],
    # choices that do not go together
    "cohort=21": ["cohort=21 is more than clients=20"],
    "buffer=3 concurrency=2": ["not 3 <= 2 <= 20: a smaller buffer, or refill=at_once, would do"],
    "concurrency=21": ["concurrency=21 is more than clients=20"],
    "buffer=21": ["buffer <= concurrency <= clients has to hold, not 21 <="],
    "devices.tau_max=9": ["devices.tau_max=9 is more than epochs=2"],
    "algo=scaffold aggregation=cached": ["aggregation=cached is not possible with scaffold"],
    "protocol=fedlga": ["does not cover dataset=digits"],
    "dataset=fmnist partition.alpha=1": ["add partition=dirichlet"],
    # data and partitions
    "dataset.source=moon": ["dataset.source", "moon"],
    "clients=1438": ["clients=1438 is more than the 1437 training samples of digits"],
    "clients=1000000000000": ["more than the 1437 training samples"],
    "partition=classes partition.per_client=11": ["partition.per_client=11 is more than the 10 classes of digits"],
    # where the run is written
    "out=/dev/null/x": ["Cannot write to the output folder /dev/null/x", "Not a directory"],
    "out=a_file/below": ["Cannot write to the output folder a_file/below", "Not a directory"],
    "-m seed=0,1 out=a_file": ["Cannot write to the output folder a_file"],
    # several runs
    "seed=0,1": ["means several runs: add -m"],
    "-m out=a,b": ["out cannot have several values"],
    "-m algo=glob(x*)": ["Nothing to run"],
    "-m seed=range(0)": ["Nothing to run"],
    "-m seed=range(0,1000000000)": ["more than 10,000 runs"],
    "-m seed=shuffle(range(1000000000))": ["more than 10,000 runs"],
    "-m seed=range(0,999999999999999999,0)": ["more than 10,000 runs"],
    "-m seed=range(101) lr=range(0,100)": ["more than 10,000 runs"],
    "-m lr=interval(0,1)": ["does not support"],
    "-m algo=fedavg,fedprx": ["Unknown algorithm 'fedprx'"],
    "-m lr=0.1,-1": ["lr=-1.0"],
    "-m --cfg job": ["cannot be combined"],
}
PREPARED = {  # what only the preparation of the run can tell
    "out=/proc/fedbench": ["Cannot write to the output folder /proc/fedbench"],  # root may write to /proc
    "logger=wandb_online": ["WANDB_API_KEY"],
    "dataset=mnist dataset.source=env": ["MNIST", "FEDBENCH_DATA"],
    "partition.min_size=72": ["20 clients with at least 72 samples each need 1440, but there are 1437"],
    "partition=classes clients=1000": ["of 1000 clients would share the 139 samples of class 8", "695 clients"],
    # too large for any machine
    "model.hidden=[9999999999]": ["would need about", "GB of memory", "a smaller model"],
    "model.hidden=[9000000000000000000]": ["model=mlp cannot be made"],
    "epochs=100000000000": ["the order of samples in 100000000000 epochs", "fewer epochs"],
}
COUNTS = "rounds clients cohort concurrency buffer epochs batch_size eval_every arrivals_per_round test_samples "
COUNTS += "devices.tau_max partition.min_size engine.batch engine.workers"
VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    **dict.fromkeys(COUNTS.split(), ("at least 1 and below 2^63", (0, -1, 2**63))),
    **dict.fromkeys(
        ("lr", "virtual_seconds", "model.width", "partition.alpha"), ("a finite number above 0", (0.0, -1.0))
    ),
    **dict.fromkeys(("weight_decay", "checkpoint_seconds"), ("a finite number of at least 0", (-1, math.inf))),
    "seed": ("at least 0 and below 2^63", (-1, 2**63)),
    **dict.fromkeys(("momentum", "model.dropout"), ("at least 0 and below 1", (-0.1, 1.0, math.nan))),
    "devices.loss": ("between 0 and 0.99", (-0.1, 1.0, 0.9999, math.nan)),
    **dict.fromkeys(("target", "val_fraction"), ("between 0 and 1, both excluded", (0.0, 1.0, 90.0, math.nan))),
    **dict.fromkeys(
        ("devices.up", "devices.down"),
        ("a number or a list of numbers, each between 1e-09 and 1e+09", (0, [], [1, -1], True, 1e308)),
    ),
    **dict.fromkeys(
        ("devices.seconds", "devices.peer"),
        ("[lo, hi] with lo <= hi, each between 1e-09 and 1e+09", ([1], [0, 1], [2, 1])),
    ),
    "devices.rho": ("between 0 and 1", (1.1, -0.1, math.nan)),
    "devices.spread": ("between 1 and 1e+09", (0.5, math.inf)),
    "logger.project": ("a name of at most 128 characters without / \\ # ? % and :", ("a/b", "", "a" * 129)),
    "model.hidden": ("a list of numbers, each a finite number of at least 1", ([0], [64, -1])),
    "devices.straggler": ("tau | epochs", ("late",)),
    "local_unit": ("epoch | step", ("batch",)),
    "weighting": ("size | uniform", ("none",)),
    "sampling": ("with_replacement | without_replacement", ("random",)),
    "aggregation": ("arrived | cached", ("all",)),
    "schedule": ("sync | async", ("semi",)),
    "on_divergence": ("stop | drop", ("go on",)),
    "scale": ("auto | paper | cpu | smoke", ("tiny",)),
    "engine.device": ("auto | cpu | cuda", ("tpu",)),
    "engine.address": ("local | auto | ray://host:port", ("here", "ray://host")),
    "logger.mode": ("offline | online | disabled", ("loud",)),
}


@pytest.mark.parametrize("line", [*LINES, *PREPARED])
def test_a_mistake_on_the_command_line_is_refused_in_one_sentence(
    line: str, refused, monkeypatch, tmp_path_factory
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path_factory.getbasetemp()))  # for the cache of whoever is the first
    for name in ("FEDBENCH_DATA", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    Path("a_file").write_text("not a folder")
    refused(line.split(), (LINES | PREPARED)[line], silent=line in LINES)


@cache
def composed(algo: str) -> dict[str, Any]:
    """To be changed key by key, which is a hundred times faster than a command line for each."""
    config = compose.config([f"algo={algo}"])
    check.config(config)
    return config


@pytest.mark.parametrize("key", VALUES)
def test_a_value_that_no_run_can_use_is_refused(key: str) -> None:
    config, (group, _, name), (allowed, values) = composed("fedavg"), key.rpartition("."), VALUES[key]
    for value in values:
        changed = {group: {**config[group], name: value}} if group else {name: value}
        with pytest.raises(UserError) as refusal:
            check.config({**config, **changed})
        assert str(refusal.value) == f"{key}={value} is not possible: it must be {allowed}."


def numbers() -> list[tuple[str, str, Mapping[str, float]]]:
    """Every field of every method that takes a number, with its bounds."""
    return [
        (name, f.name, f.metadata)
        for name, cls in registry.classes("algo").items()
        for f in fields(cls)
        if {int, float} & {get_type_hints(cls)[f.name], *get_args(get_type_hints(cls)[f.name])}
    ]


@pytest.mark.parametrize(("algo", "field", "bounds"), numbers())
def test_fields_of_methods_are_finite_and_within_their_bounds(
    algo: str, field: str, bounds: Mapping[str, float]
) -> None:
    beyond, config = {"min": -1e-6, "above": 0.0, "max": 1e-6, "below": 0.0}, composed(algo)
    for value in (math.nan, math.inf, -math.inf, *(bounds[name] + by for name, by in beyond.items() if name in bounds)):
        with pytest.raises(UserError, match=field) as refusal:
            check.config({**config, "algo": {**config["algo"], field: value}})
        assert "\n" not in str(refusal.value)


def test_a_refusal_in_a_process_of_its_own() -> None:
    Path("file").write_text("")
    done = process("bench.py", "out=file/runs")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Cannot write to the output folder file/runs (key out): Not a directory.\n"
    assert [path.name for path in Path.cwd().iterdir()] == ["file"]


def idx(array: torch.Tensor) -> bytes:
    return bytes([0, 0, 8, array.dim()]) + struct.pack(f">{array.dim()}I", *array.shape) + array.numpy().tobytes()


@pytest.mark.parametrize("dataset", ["mnist", "fmnist"])
@pytest.mark.parametrize(("keep", "words"), [(-9, ["bytes where its header promises"]), (None, ["SHA-256", "not"])])
def test_data_that_is_cut_off_or_not_the_original(dataset, keep, words, refused, monkeypatch) -> None:
    folder = Path("data") / dataset
    folder.mkdir(parents=True)
    for part in ("train", "t10k"):
        images = idx(torch.zeros(20, 28, 28, dtype=torch.uint8))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images[:keep])
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(torch.arange(20, dtype=torch.uint8) % 10))
    monkeypatch.setenv("FEDBENCH_DATA", str(Path("data").absolute()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    line = [f"dataset={dataset}", "dataset.source=env", "logger=none"]
    refused(line, [f"{dataset}/train-images-idx3-ubyte", *words])


def test_a_folder_that_may_not_be_written(refused, monkeypatch) -> None:
    Path("locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(["out=locked"], ["output folder locked (key out): Permission denied"], silent=True)


TOOLS = {
    bench_tools: ("speedd", "speed --fast", "replay", "replay /nowhere", "partition lr=x"),
    data_tools: ("lst", "list mnost"),
}


@pytest.mark.parametrize(("main", "line"), [(main, line) for main, lines in TOOLS.items() for line in lines])
def test_the_small_tools_are_as_polite(main, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
