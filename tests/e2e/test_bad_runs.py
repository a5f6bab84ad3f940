"""Damaged, foreign, finished and running runs are not resumed: one sentence, and every file as it was before."""

import os

import pytest
import torch
import yaml

from bench.checkpoint import checkpoint_path
from bench.main import command
from bench.output import digests
from bench.record import Record, read


def sign(path, content):
    """As if the program had written it."""
    path.write_text(digests.signed(yaml.safe_dump({k: v for k, v in content.items() if k != "sha256"})))


def edit(**changes):
    def damage(run):
        content = yaml.safe_load((run / "config.yaml").read_text()) | changes
        content = {key: value for key, value in content.items() if key not in changes or value is not None}
        sign(run / "config.yaml", content)

    return damage


def replace(name, old, new):
    return lambda run: (run / name).write_text((run / name).read_text().replace(old, new, 1))


def without(group, *keys):
    def damage(run):
        content = yaml.safe_load((run / "config.yaml").read_text())
        for key in keys:
            del content[group][key]
        sign(run / "config.yaml", content)

    return damage


def write(name, content):
    return lambda run: (run / name).write_bytes(content)


def cut(name, share):
    return lambda run: os.truncate(run / name, int(share * (run / name).stat().st_size))


def checkpoint_of(**changes):
    def damage(run):
        content = torch.load(checkpoint_path(run), weights_only=True)
        torch.save({**content, **changes}, checkpoint_path(run))

    return damage


CKPT = "checkpoints/last.ckpt"
DAMAGES = {
    "no config": (lambda run: (run / "config.yaml").unlink(), ["is not the folder of a run"]),
    "not YAML": (write("config.yaml", b"algo: [fedavg"), ["no readable config.yaml"]),
    "not text": (write("config.yaml", b"\xff\xfe\x00"), ["no readable config.yaml"]),
    "another program": (write("config.yaml", b"algo: fedavg\nlr: 1\n"), ["another version", "it lacks", "epochs"]),
    "an older version": (edit(on_divergence=None), ["another version", "it lacks on_divergence"]),
    "a newer version": (edit(colour="red"), ["another version", "it has colour"]),
    "an older engine": (
        without("engine", "workers", "address"),
        ["another version", "lacks engine.address, engine.wor"],
    ),
    "older devices": (without("devices", "max_wait"), ["another version of fedbench: it lacks devices.max_wait"]),
    "no name": (edit(model={}), ["model has no name"]),
    "an unknown method": (edit(algo={"name": "x", "_target_": "algorithms.x.X"}), ["There is no algorithms.x.X"]),
    "an unknown field": (
        edit(algo={"name": "fedprox", "_target_": "algorithms.fedprox.FedProx", "nu": 1.0}),
        ["Unknown field", "nu"],
    ),
    "another rate": (replace("config.yaml", "lr: 0.1", "lr: 0.3"), ["config.yaml is not as it was written", "SHA-256"]),
    "another rate, signed": (edit(lr=0.3), ["config.yaml is not as it was written", "start a new run"]),
    "another seed, signed": (edit(seed=1), ["config.yaml is not as it was written"]),
    "another accuracy": (replace("metrics.csv", ",0.", ",0.1"), ["metrics.csv is not as it was written", CKPT]),
    "another job": (replace("timeline.csv", "1,", "2,"), ["timeline.csv is not as it was written", CKPT]),
    "no jobs": (lambda run: (run / "timeline.csv").unlink(), ["timeline.csv is not as it was written"]),
    "no checksum": (lambda run: cut(CKPT, 1 - 1 / (run / CKPT).stat().st_size)(run), ["its checksum is missing"]),
    "a text for a number": (edit(rounds="ten"), ["does not describe a run of this version", "ten"]),
    "an impossible number": (edit(lr=-1.0), ["lr=-1.0 is not possible"]),
    "an impossible field": (
        edit(algo={"name": "fedprox", "_target_": "algorithms.fedprox.FedProx", "mu": "much"}),
        ["algo.mu=much", "float"],
    ),
    "a result that is not JSON": (write("result.json", b"{"), ["result.json is not readable JSON"]),
    "rows of another length": (write("metrics.csv", b"round,version\n1\n2,2\n3,3\n"), ["metrics.csv is damaged"]),
    "rows that are no numbers": (write("metrics.csv", b"round,version\n1,x\n2,2\n"), ["metrics.csv is damaged"]),
    "fewer rows than the checkpoint": (
        lambda run: (run / "metrics.csv").unlink(),
        ["metrics.csv has 0 rounds, its checkpoint 2"],
    ),
    "half a checkpoint": (cut(CKPT, 0.5), [f"{CKPT} cannot be used", "starts the run over"]),
    "an empty checkpoint": (cut(CKPT, 0), [f"{CKPT} cannot be used"]),
    "noise as checkpoint": (write(CKPT, b"x" * 5000), [f"{CKPT} cannot be used"]),
    "a checkpoint of another program": (
        lambda run: torch.save({"state_dict": {}}, checkpoint_path(run)),
        [f"{CKPT} cannot be used", "not one of fedbench"],
    ),
    "a checkpoint of another version": (
        checkpoint_of(federation={"round": 2, "loop": {"server": {}}}),
        [f"{CKPT} cannot be used", "does not belong to this config"],
    ),
    "a checkpoint of another model": (
        checkpoint_of(federation={"round": 2, "loop": {"server": {"w": torch.zeros(7)}}}),
        [f"{CKPT} cannot be used", "does not belong to this config"],
    ),
}


LINES = {
    "resume=runs/none": ["runs/none is not the folder of a run"],
    "resume=runs/finished/config.yaml": ["config.yaml is not the folder of a run"],
    "resume=runs": ["runs is not the folder of a run"],
    "resume=runs/finished": ["runs/finished is finished already", "result.json"],
    "resume=runs/stopped lr=0.3": ["runs/stopped was run with lr=0.1, not 0.3", "leave lr out"],
    "resume=runs/stopped algo=fedprox": ["was run with algo=fedavg, not fedprox"],
    "resume=runs/stopped model=mlp400": ["was run with model.hidden=[64], not [400]"],
    "resume=runs/stopped devices.rho=0.5": ["was run with devices.rho=0.0, not 0.5"],
    "resume=runs/stopped algo.mu=3": ["runs/stopped was run with algo=fedavg: ", "leave algo.mu out"],
    "resume=runs/stopped schedule=async": ["was run with schedule=None, not async"],
}


@pytest.mark.parametrize("line", LINES)
def test_what_is_no_run_that_can_go_on_is_not_resumed(line, runs, refused):
    refused(line.split(), LINES[line])


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_or_foreign_run_is_not_resumed(name, runs, refused):
    damage, words = DAMAGES[name]
    damage(runs / "stopped")
    refused(["resume=runs/stopped"], words)


def test_what_is_not_damaged_is_resumed(runs):
    assert command(["resume=runs/stopped", "algo=fedavg", "lr=0.1", "model=mlp", "scale=auto"]) == 0
    result = read(runs / "stopped").result
    assert result.weights_sha256 == read(runs / "finished").result.weights_sha256


def test_a_run_that_is_going_on_is_not_resumed(runs, refused):
    record = Record.reopen(runs / "stopped")
    refused(["resume=runs/stopped"], ["runs/stopped is being written by another process"])
    record.close()


def test_a_field_of_the_resumed_runs_own_method_is_compared_with_it(runs, refused):
    path = runs / "stopped" / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["algo"] = {"name": "fedprox", "_target_": "algorithms.fedprox.FedProx", "mu": 0.01}
    sign(path, config)
    refused(["resume=runs/stopped", "algo.mu=3"], ["runs/stopped was run with algo.mu=0.01", "leave algo.mu out"])
