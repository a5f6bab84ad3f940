"""The keys of a run with their types, last-resort defaults and one-line help. No default: the data set has one."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from algorithms.base import REFILL
from bench.keys import COUNT, key
from bench.simulation.devices import Population

# options of these groups are dataclasses (bench/prepare/registry.py) or files in bench/conf/<group>/
GROUPS = {
    "algo": "algorithm",
    "dataset": "data set",
    "task": "task",
    "model": "model",
    "partition": "partition",
    "protocol": "protocol",
    "devices": "device population",
    "optimizer": "local optimiser",
    "upload": "transform of uploads",
    "engine": "engine",
    "logger": "logger",
}
DEFAULTS = {  # what `auto` is, bench/prepare/resolve.py decides
    "algo": "fedavg",
    "dataset": "digits",
    **dict.fromkeys(("task", "model", "partition", "protocol", "devices", "optimizer", "engine"), "auto"),
    "upload": "none",
    "logger": "wandb",
}


@dataclass
class Keys:
    rounds: int = key("reporting rounds to run", **COUNT)
    clients: int = key("devices in the federation (N)", **COUNT)
    cohort: int = key("devices drawn per round (K)", **COUNT)
    epochs: int = key("local epochs, or steps, of a device that is not a straggler (E)", **COUNT)
    batch_size: int = key("samples in a local mini-batch", **COUNT)
    lr: float = key("local learning rate", above=0)
    target: float = key("what to reach by the task's metric; accuracy as a fraction")
    normalise: bool = key("subtract the channel mean and divide by the deviation")
    momentum: float = key("local momentum, as in torch's SGD", 0.0, min=0, below=1)
    weight_decay: float = key("local weight decay, as in torch's SGD", 0.0, min=0)
    lr_decay: float = key("factor on the local rate from one round to the next", 1.0, above=0, max=1)
    clip_norm: float | None = key("cut local gradients to this norm; null: never", None, above=0)
    local_unit: str = key("what `epochs` counts", "epoch", choices=("epoch", "step"))
    weighting: str = key("a device's weight in the mean", "size", choices=("size", "uniform"))
    sampling: str = key(
        "how a cohort is drawn", "without_replacement", choices=("with_replacement", "without_replacement")
    )
    aggregation: str = key(
        "the mean is over what arrived, or every device's last model", "arrived", choices=("arrived", "cached")
    )
    schedule: str | None = key("null is the algorithm's own", None, choices=("sync", "async"))
    concurrency: int | None = key("places for devices at work; null: the schedule's", None, **COUNT)
    buffer: int | None = key("uploads per aggregation; null: the schedule's", None, **COUNT)
    refill: str | None = key("when a place that an upload left is filled; null: the schedule's", None, choices=REFILL)
    arrivals_per_round: int | None = key(
        "uploads in a reporting round; null: the algorithm's schedule decides", None, **COUNT
    )
    virtual_seconds: float | None = key("stop at this time of the virtual clock", None, above=0)
    on_divergence: str = key(
        "a loss or update that is not finite ends the run, or is left out", "stop", choices=("stop", "drop")
    )
    seed: int = key("of every random stream", 0, min=0, below=2**63)
    eval_every: int = key("rounds between evaluations", 1, **COUNT)
    test_samples: int | None = key("evaluate on so many test samples; null: all", None, **COUNT)
    val_fraction: float | None = key(
        "evaluate on this share of the training data, held out, instead of the test set", None, above=0, below=1
    )
    keep_model: bool | None = key(
        "write the final model to model.pt; null: not in sweeps, nor in multiruns of more than ten", None
    )
    checkpoint_seconds: float = key("least time between two checkpoints", 60.0, min=0)
    scale: str = key("cpu makes smaller what is heavy", "auto", choices=("auto", "paper", "cpu", "smoke"))
    out: str = key("the folder that holds the runs", "runs")
    resume: str | None = key("continue this run's folder; no other key is needed", None)


KEYS = [f.name for f in fields(Keys)]


@dataclass
class ModelKeys:
    name: str = "mlp"
    hidden: list[int] = key("units of each hidden layer", [64], min=1, shape="list")
    channels: list[int] = key("of each convolution", [64, 128], min=1, shape="list")
    width: float = key("factor on the number of channels and hidden units", 1.0, above=0)
    dropout: float = key("before the fully connected layers", 0.5, min=0, below=1)
    target: str | None = key("custom: ./file.py:Class or package.Class", None)
    args: dict[str, Any] = key("custom: what its constructor is given, as in model.args={hidden:32}", {})


@dataclass
class OptimizerKeys:
    name: str = "sgd"
    beta1: float = key("decay of the mean gradient", 0.9, min=0, below=1)
    beta2: float = key("decay of the mean squared gradient", 0.999, min=0, below=1)
    eps: float = key("added to the root of the mean squared gradient", 1e-8, above=0)


@dataclass
class EngineKeys:
    name: str = "auto"
    device: str = key("what computes", "auto", choices=("auto", "cpu", "cuda"))
    batch: int | None = key("most jobs computed together; null: all that are ready", None, **COUNT)
    workers: int | None = key(
        "processes that train and evaluate; null: one a core where it pays; same result", None, **COUNT
    )
    address: str = key(
        "where they are: local | auto (a Ray cluster this machine is in) | ray://...",
        "local",
        form=r"local|auto|ray://[^/:\s]+:[0-9]{1,5}",
        in_words="local | auto | ray://host:port",
    )


@dataclass
class LoggerKeys:
    name: str = "wandb"
    mode: str = key("of W&B", "offline", choices=("offline", "online", "disabled"))
    project: str = key(
        "the project at W&B",
        "fedbench",
        form=r"[^/\\#?%:]{1,128}",
        in_words="a name of at most 128 characters without / \\ # ? % and :",
    )


_TYPES = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}
_NOT_OF_TYPE = re.compile(
    r"Value '(.*)' (?:of type '\w+' could not be converted to|is not a valid) (Integer|Float|bool)(?: \(type \w+\))?"
)
SCHEMAS: dict[str, type] = {
    "model": ModelKeys,
    "devices": Population,
    "optimizer": OptimizerKeys,
    "engine": EngineKeys,
    "logger": LoggerKeys,
}


def open_twin(cls: type, **more: Any) -> type:
    """The same fields, all optional and left open (null), for Hydra to hold what was given."""
    hints = {name: Any if get_origin(hint) is dict else hint | None for name, hint in get_type_hints(cls).items()}
    own = [(f.name, hints[f.name], None) for f in fields(cls) if f.name not in more]
    return make_dataclass(f"Open{cls.__name__}", [*own, *((name, Any, value) for name, value in more.items())])


def optional(cls: type) -> set[str]:
    """Fields for which null is a value of its own."""
    return {name for name, hint in get_type_hints(cls).items() if type(None) in get_args(hint)}


def in_words(message: str) -> str:
    """OmegaConf's message on a value of the wrong type, without names of types."""
    return _NOT_OF_TYPE.sub(lambda found: f"'{found[1]}' is not {_TYPES[found[2]]}", message)
