"""Bad input through the real command: one sentence on stderr, exit code 2, and every file as it was before."""

import os
import struct
from pathlib import Path

import pytest
import torch

from bench.__main__ import main as bench_tools
from datamodules.__main__ import main as data_tools

CASES = {
    # names, with the nearest that exist
    "algo=fedproxx": ["Unknown algorithm 'fedproxx'", "nearest: fedprox"],
    "dataset=digitz": ["Unknown data set 'digitz'", "nearest: digits"],
    "model=mpl": ["Unknown model 'mpl'", "mlp"],
    "partition=dirichle": ["Unknown partition 'dirichle'", "nearest: dirichlet"],
    "protocol=fedlgaa": ["Unknown protocol 'fedlgaa'", "nearest: fedlga"],
    "devices=slow": ["Unknown device population 'slow'", "mixed"],
    "round=3": ["Unknown key 'round'", "nearest: rounds"],
    "algo=fedprox algo.m=1": ["Unknown field of algo=fedprox 'm'", "mu"],
    "dataset.root=x": ["Unknown field of dataset=digits 'root'"],
    "algo._target_=os.system": ["algo=fedavg has no fields"],
    # syntax
    "rounds": ["'rounds' is not key=value"],
    "rounds=[1": ["'rounds=[1' is not key=value", "quotes"],
    "lr=0.1=2": ["'lr=0.1=2' is not key=value"],
    "lr=${nope}": ["Interpolation key 'nope' not found"],
    "lr=???": ["lr"],
    "+rounds=3": ["write rounds=..."],
    "--fast": ["Unrecognized arguments: --fast"],
    "--resolve": ["--cfg"],
    "--experimental-rerun x": ["not supported"],
    "hydra.run.dir=/x": ["Hydra's own settings are fixed"],
    "hydra/launcher=joblib": ["Hydra's own settings are fixed"],
    # types
    "rounds=ten": ["rounds=ten", "whole number"],
    "rounds=1.5": ["rounds=1.5", "whole number"],
    "rounds=true": ["rounds=true"],
    "lr=fast": ["lr=fast", "not a number"],
    "normalise=maybe": ["normalise=maybe", "true or false"],
    "algo=fedprox algo.mu=[1]": ["algo.mu=[1]", "not a number"],
    "algo=fedlga algo.scale=true": ["scale must be float or str"],
    "model.hidden=64": ["model.hidden=64"],
    # counts
    "rounds=0": ["rounds=0", "at least 1"],
    "clients=-1": ["clients=-1"],
    "cohort=0": ["cohort=0"],
    "epochs=-3": ["epochs=-3"],
    "batch_size=0": ["batch_size=0"],
    "batch_size=99999999999999999999": ["batch_size=99999999999999999999", "below 2^63"],
    "eval_every=0": ["eval_every=0"],
    "arrivals_per_round=0": ["arrivals_per_round=0"],
    "test_samples=-1": ["test_samples=-1"],
    "engine.batch=0": ["engine.batch=0"],
    "engine.workers=0": ["engine.workers=0", "at least 1"],
    "engine.workers=two": ["engine.workers=two"],
    "engine.address=here": ["engine.address=here", "local | auto | ray://host:port"],
    "engine.address=ray://host": ["engine.address=ray://host"],
    "model.hidden=[0]": ["model.hidden=[0]"],
    "devices.tau_max=0": ["devices.tau_max=0"],
    "devices.tau_max=9": ["devices.tau_max=9 is more than epochs=2"],
    "cohort=21": ["cohort=21 is more than clients=20"],
    "buffer=3 concurrency=2": ["buffer=3 is more than concurrency=2"],
    # rates and other numbers
    "lr=0": ["lr=0.0", "above 0"],
    "lr=-0.1": ["lr=-0.1"],
    "lr=nan": ["lr=nan", "finite"],
    "lr=inf": ["lr=inf"],
    "momentum=1": ["momentum=1.0", "below 1"],
    "weight_decay=-1": ["weight_decay=-1.0"],
    "target=0": ["target=0.0", "between 0 and 1, both excluded"],
    "target=1": ["target=1.0"],
    "target=nan": ["target=nan"],
    "virtual_seconds=0": ["virtual_seconds=0.0"],
    "checkpoint_seconds=-1": ["checkpoint_seconds=-1.0"],
    "devices.rho=1.1": ["devices.rho=1.1", "between 0 and 1"],
    "devices.rho=-0.1": ["devices.rho=-0.1"],
    "devices.up=0": ["devices.up=0"],
    "devices.spread=0.5": ["devices.spread=0.5"],
    "seed=-1": ["seed=-1"],
    "algo=fedprox algo.mu=-0.1": ["algo.mu=-0.1", "at least 0"],
    "algo=fedprox algo.mu=inf": ["algo.mu=inf", "at least 0"],
    "algo=scaffold algo.eta_g=nan": ["algo.eta_g=nan", "above 0"],
    "algo=scaffold algo.c=-1": ["algo.c=-1.0"],
    "algo=fedlga algo.gamma=1": ["algo.gamma=1.0", "at least 0 and below 1"],
    "algo=fedlga algo.scale=nan": ["algo.scale=nan", "a finite number"],
    "algo=fedasync algo.alpha=0": ["algo.alpha=0.0", "above 0 and at most 1"],
    "algo=fedasync algo.alpha=1.5": ["algo.alpha=1.5"],
    "algo=fedasync algo.staleness=linear": ["const, poly or hinge", "linear"],
    # choices that do not go together
    "weighting=none": ["weighting=none", "size | uniform"],
    "algo=scaffold aggregation=cached": ["aggregation=cached is not possible with scaffold"],
    "protocol=fedlga": ["does not cover dataset=digits"],
    "engine.device=tpu": ["engine.device=tpu", "cuda"],
    "logger=wandb_online": ["WANDB_API_KEY"],
    # data and partitions
    "partition=classes partition.per_client=11": ["partition.per_client=11 is more than the 10 classes of digits"],
    "clients=1438": ["clients=1438 is more than the 1437 training samples of digits"],
    "clients=1000000000000": ["more than the 1437 training samples"],
    "partition.min_size=72": ["20 clients with at least 72 samples each need 1440, but there are 1437"],
    "partition=classes clients=1000": ["of 1000 clients would share the 139 samples of class 8", "695 clients"],
    "partition.alpha=0": ["partition.alpha=0.0"],
    "dataset.source=moon": ["dataset.source", "moon"],
    "dataset=mnist dataset.source=env": ["MNIST", "FEDBENCH_DATA"],
    # too large for any machine
    "model.hidden=[9999999999]": ["would need about", "GB of memory", "a smaller model"],
    "model.width=1e300": ["model=mlp cannot be made"],
    "epochs=100000000000": ["the order of samples in 100000000000 epochs", "fewer epochs"],
    # where the run is written
    "out=/dev/null/x": ["Cannot write to the output folder /dev/null/x", "Not a directory"],
    "out=a_file/below": ["Cannot write to the output folder a_file/below", "Not a directory"],
    "out=/proc/fedbench": ["Cannot write to the output folder /proc/fedbench"],
    "-m seed=0,1 out=a_file": ["Cannot write to the output folder a_file"],
    # several runs
    "seed=0,1": ["means several runs: add -m"],
    "-m algo=glob(x*)": ["Nothing to run"],
    "-m seed=range(0)": ["Nothing to run"],
    "-m out=a,b": ["out cannot have several values"],
    "-m algo=fedavg,fedprx": ["Unknown algorithm 'fedprx'"],
    "-m lr=0.1,-1": ["lr=-1.0"],
    # resume
    "resume=runs/none": ["runs/none is not the folder of a run"],
    "resume=a_file": ["a_file is not the folder of a run"],
    "resume=runs": ["runs is not the folder of a run"],
    "resume=runs/finished": ["runs/finished is finished already", "result.json"],
    "resume=runs/stopped lr=0.3": ["runs/stopped was run with lr=0.1, not 0.3", "leave lr out"],
    "resume=runs/stopped algo=fedprox": ["was run with algo=fedavg, not fedprox"],
    "resume=runs/stopped model=mlp400": ["was run with model.hidden=[64], not [400]"],
    "resume=runs/stopped devices.rho=0.5": ["was run with devices.rho=0.0, not 0.5"],
    "resume=runs/stopped algo.mu=3": ["runs/stopped was run with algo=fedavg: ", "leave algo.mu out"],
    "resume=runs/stopped schedule=async": ["was run with schedule=None, not async"],
}


@pytest.mark.parametrize(("line", "words"), CASES.items())
def test_bad_input_is_refused_before_anything_is_written(line, words, runs, refused, monkeypatch):
    monkeypatch.setenv("HOME", str(Path.cwd()))
    for name in ("FEDBENCH_DATA", "WANDB_API_KEY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    Path("a_file").write_text("not a folder")
    refused(line.split(), words)


def idx(array):
    return bytes([0, 0, 8, array.dim()]) + struct.pack(f">{array.dim()}I", *array.shape) + array.numpy().tobytes()


@pytest.mark.parametrize("dataset", ["mnist", "fmnist"])
@pytest.mark.parametrize(("keep", "words"), [(-9, ["bytes where its header promises"]), (None, ["SHA-256", "not"])])
def test_data_that_is_cut_off_or_not_the_original(dataset, keep, words, refused, monkeypatch):
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


def test_a_folder_that_may_not_be_written(refused, monkeypatch):
    Path("locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(["out=locked"], ["output folder locked (key out): Permission denied"])


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (bench_tools, "speedd"),
        (bench_tools, "speed --fast"),
        (bench_tools, "replay"),
        (bench_tools, "replay /nowhere"),
        (bench_tools, "partition lr=x"),
        (data_tools, "lst"),
        (data_tools, "list mnost"),
    ],
)
def test_the_small_tools_are_as_polite(main, line, capsys):
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
