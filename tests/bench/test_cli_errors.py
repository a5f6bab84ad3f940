"""Bad input: one sentence with the key, the value and what is allowed; exit code 2; nothing is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_type_hints

import pytest

from bench.errors import UserError
from bench.main import command
from bench.prepare import check, compose, registry
from tests.bench.refusal import assert_refused

NAMES = {
    "algo=fedavgg": ["Unknown algorithm 'fedavgg'", "fedavg"],
    "dataset=digit": ["Unknown data set 'digit'", "nearest: digits"],
    "model=mpl": ["Unknown model 'mpl'", "mlp"],
    "partition=dirichlt": ["Unknown partition", "nearest: dirichlet"],
    "protocol=fedlgaa": ["Unknown protocol", "nearest: fedlga"],
    "devices=fast": ["Unknown device population 'fast'", "equal"],
    "engine=turbo": ["Unknown engine 'turbo'", "eager"],
    "logger=wandbb": ["Unknown logger", "wandb"],
    "engine=cohort": ["Unknown engine 'cohort'", "vmap"],
    "round=3": ["Unknown key 'round'", "nearest: rounds"],
    "algo=fedprox algo.nu=1": ["Unknown field of algo=fedprox 'nu'", "choose from mu"],
    "algo.nu=1": ["algo=fedavg has no fields"],
    "algo.name=x": ["algo=fedavg has no fields"],
    "devices.speed=1": ["Unknown field of devices=auto 'speed'", "spread"],
    "model=linear model.hidden=[3]": ["model=linear has no fields"],
    "protocol=fedlga protocol.home=[digits]": ["protocol=fedlga has no fields"],
    "+extra=1": ["Unknown key 'extra'"],
    "+lr=1": ["write lr=..."],
    "~lr": ["write lr=..."],
    "fedavg": ["'fedavg' is not key=value, as in algo=fedavg"],
    "algo = fedavg": ["'algo' is not key=value (without blanks)"],
    "partition.alpha=x": ["partition.alpha=x: 'x' is not a number."],
    "lr=[": ["'lr=['"],
    "--fast": ["--fast (keys have no dashes: algo=scaffold)"],
    "seed=0,1": ["add -m"],
    "-m out=a,b": ["out cannot have several values"],
    "-m algo=glob(x*)": ["Nothing to run"],
    "-m lr=interval(0,1)": ["does not support"],
    "-m algo=fedavg,fedprx": ["Unknown algorithm 'fedprx'"],
    "protocol=fedlga": ["does not cover dataset=digits"],
    "dataset=fmnist partition.alpha=1": ["add partition=dirichlet"],
    "-m --cfg job": ["cannot be combined"],
    "--resolve": ["--cfg"],
    "--cfg job --package x": ["not supported"],
    "--shell-completion": ["install=SHELL"],
    "--info config": ["not supported"],
    "--cfg job lr=x": ["lr=x"],
    "hydra.run.dir=x": ["Hydra's own settings are fixed"],
    "hydra/launcher=slurm": ["Hydra's own settings are fixed"],
    "out=/dev/null/x": ["Cannot write to the output folder /dev/null/x"],
    "--config-dir /tmp": ["not supported"],
    "-m out=/dev/null/x": ["Cannot write to the output folder /dev/null/x"],
}
VALUES = {
    "rounds=abc": ["rounds=abc: 'abc' is not a whole number."],
    "rounds=1.5": ["rounds=1.5"],
    "rounds=0": ["rounds=0", "at least 1"],
    "clients=-1": ["clients=-1", "at least 1"],
    "cohort=0": ["cohort=0"],
    "epochs=0": ["epochs=0"],
    "batch_size=0": ["batch_size=0"],
    "eval_every=0": ["eval_every=0"],
    "test_samples=0": ["test_samples=0"],
    "arrivals_per_round=0": ["arrivals_per_round=0"],
    "cohort=21": ["cohort=21 is more than clients=20"],
    "buffer=3 concurrency=2": ["buffer=3 is more than concurrency=2"],
    "concurrency=21": ["concurrency=21 is more than clients=20"],
    "buffer=21": ["buffer=21 is more than clients=20"],
    "lr=0": ["lr=0.0", "above 0"],
    "lr=-1": ["lr=-1.0"],
    "lr=nan": ["lr=nan"],
    "lr=inf": ["lr=inf"],
    "momentum=1": ["momentum=1.0", "below 1"],
    "weight_decay=-1": ["weight_decay=-1.0", "at least 0"],
    "target=1": ["target=1.0", "between 0 and 1"],
    "target=90": ["target=90.0"],
    "seed=-1": ["seed=-1"],
    "virtual_seconds=0": ["virtual_seconds=0.0"],
    "devices.rho=1.5": ["devices.rho=1.5", "between 0 and 1"],
    "devices.tau_max=9": ["devices.tau_max=9 is more than epochs=2"],
    "devices.spread=0.5": ["devices.spread=0.5"],
    "devices.up=0": ["devices.up=0"],
    "devices.straggler=late": ["devices.straggler=late", "tau | epochs"],
    "local_unit=batch": ["local_unit=batch", "epoch | step"],
    "weighting=none": ["weighting=none", "size | uniform"],
    "sampling=random": ["sampling=random", "with_replacement"],
    "aggregation=all": ["aggregation=all"],
    "schedule=semi": ["schedule=semi", "sync | async"],
    "scale=tiny": ["scale=tiny", "smoke"],
    "engine.device=tpu": ["engine.device=tpu", "cuda"],
    "engine.batch=many": ["engine.batch=many"],
    "logger.mode=loud": ["logger.mode=loud"],
    "model.hidden=[0]": ["model.hidden=[0]"],
    "model.hidden=wide": ["model.hidden=wide"],
    "model.width=0": ["model.width=0.0"],
    "partition.alpha=0": ["partition.alpha=0.0"],
    "partition.alpha=much": ["partition.alpha=much"],
    "partition=classes partition.per_client=0": ["partition.per_client=0"],
    "partition=classes partition.imbalance=0.5": ["partition.imbalance=0.5"],
    "dataset.source=moon": ["dataset.source", "moon"],
    "algo=fedprox algo.mu=nan": ["algo.mu=nan"],
    "algo=fedprox algo.mu=-1": ["algo.mu=-1.0", "at least 0"],
    "algo=fedasync algo.alpha=2": ["algo.alpha=2.0", "above 0 and at most 1"],
    "clients=2000": ["clients=2000 is more than the 1437 training samples of digits"],
    "partition=classes partition.per_client=11": ["per_client=11 is more than the 10 classes of digits"],
    "lr=${nope}": ["nope"],
    "lr=???": ["lr"],
    "algo=fedprox algo.mu=big": ["algo.mu=big"],
    "algo=fedlga algo.gradient=first": ["algo.gradient is update or last"],
    "algo=fedlga algo.scale=[1]": ["scale must be float or str"],
    "algo=fedasync algo.staleness=linear": ["staleness", "linear"],
}


def numbers() -> list[tuple[str, str, Mapping[str, float]]]:
    """Every field of every method that takes a number, with its bounds."""
    return [
        (name, f.name, f.metadata)
        for name, cls in registry.classes("algo").items()
        for f in fields(cls)
        if {int, float} & {get_type_hints(cls)[f.name], *get_args(get_type_hints(cls)[f.name])}
    ]


@cache
def composed(algo: str) -> dict[str, Any]:
    return compose.config([f"algo={algo}"])


@pytest.mark.parametrize(("algo", "field", "bounds"), numbers())
def test_fields_of_methods_are_finite_and_within_their_bounds(
    algo: str, field: str, bounds: Mapping[str, float]
) -> None:
    """In the config itself, which is a hundred times faster; the next test has the way there."""
    beyond, config = {"min": -1e-6, "above": 0.0, "max": 1e-6, "below": 0.0}, composed(algo)
    check.config(config)
    for value in (math.nan, math.inf, -math.inf, *(bound + beyond[name] for name, bound in bounds.items())):
        with pytest.raises(UserError, match=field) as refusal:
            check.config({**config, "algo": {**config["algo"], field: value}})
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1e-6"])
def test_a_number_that_a_field_cannot_be_ends_the_command(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["algo=fedprox", f"algo.mu={value}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: algo.mu=") and err.count("\n") == 1, err


@pytest.mark.parametrize(("line", "words"), [*NAMES.items(), *VALUES.items()])
def test_a_mistake_on_the_command_line_is_refused_in_one_sentence(
    line: str, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(line.split(), words, capsys, monkeypatch)
