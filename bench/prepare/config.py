"""The keys of a run with their types, last-resort defaults and one-line help. No default: the data set has one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, get_args, get_type_hints

from bench.simulation.devices import Population, about

# options of these groups are dataclasses (bench/prepare/registry.py) or files in bench/conf/<group>/
GROUPS = {
    "algo": "algorithm",
    "dataset": "data set",
    "model": "model",
    "partition": "partition",
    "protocol": "protocol",
    "devices": "device population",
    "engine": "engine",
    "logger": "logger",
}


@dataclass
class Keys:
    rounds: int = field(metadata=about("reporting rounds to run"))
    clients: int = field(metadata=about("devices in the federation (N)"))
    cohort: int = field(metadata=about("devices drawn per round (K)"))
    epochs: int = field(metadata=about("local epochs, or steps, of a device that is not a straggler (E)"))
    batch_size: int = field(metadata=about("samples in a local mini-batch"))
    lr: float = field(metadata=about("local learning rate"))
    target: float = field(metadata=about("test accuracy to reach, as a fraction"))
    normalise: bool = field(metadata=about("subtract the channel mean and divide by the deviation"))
    momentum: float = field(default=0.0, metadata=about("local momentum, as in torch's SGD"))
    weight_decay: float = field(default=0.0, metadata=about("local weight decay, as in torch's SGD"))
    local_unit: str = field(default="epoch", metadata=about("what `epochs` counts: epoch | step"))
    weighting: str = field(default="size", metadata=about("a device's weight in the mean: size | uniform"))
    sampling: str = field(
        default="without_replacement", metadata=about("how a cohort is drawn: with_replacement | without_replacement")
    )
    aggregation: str = field(default="arrived", metadata=about("arrived | cached (every device's last model)"))
    schedule: str | None = field(default=None, metadata=about("sync | async; null: the algorithm's own"))
    concurrency: int | None = field(default=None, metadata=about("devices at work at a time; null: the schedule's"))
    buffer: int | None = field(default=None, metadata=about("uploads per aggregation; null: the schedule's"))
    arrivals_per_round: int | None = field(
        default=None, metadata=about("uploads in a reporting round; null: the algorithm's schedule decides")
    )
    virtual_seconds: float | None = field(default=None, metadata=about("stop at this time of the virtual clock"))
    on_divergence: str = field(
        default="stop", metadata=about("a loss or update that is not finite: stop | drop (leave that client out)")
    )
    seed: int = field(default=0, metadata=about("of every random stream"))
    eval_every: int = field(default=1, metadata=about("rounds between evaluations"))
    test_samples: int | None = field(default=None, metadata=about("evaluate on so many test samples; null: all"))
    val_fraction: float | None = field(
        default=None, metadata=about("evaluate on this share of the training data, held out, instead of the test set")
    )
    checkpoint_seconds: float = field(default=60.0, metadata=about("least time between two checkpoints"))
    scale: str = field(default="auto", metadata=about("auto | paper | cpu (what is heavy made smaller) | smoke"))
    out: str = field(default="runs", metadata=about("the folder that holds the runs"))
    resume: str | None = field(default=None, metadata=about("continue this run's folder; no other key is needed"))


@dataclass
class Model:
    name: str = "mlp"
    hidden: list[int] = field(default_factory=lambda: [64], metadata=about("units of each hidden layer"))
    channels: list[int] = field(default_factory=lambda: [64, 128], metadata=about("of each convolution"))
    width: float = field(default=1.0, metadata=about("factor on the number of channels and hidden units"))
    dropout: float = field(default=0.5, metadata=about("before the fully connected layers"))
    target: str | None = field(default=None, metadata=about("custom: ./file.py:Class or package.Class"))
    args: dict[str, Any] = field(
        default_factory=dict, metadata=about("custom: what its constructor is given, as in model.args={hidden:32}")
    )


@dataclass
class Engine:
    name: str = "auto"
    device: str = field(default="auto", metadata=about("auto | cpu | cuda"))
    batch: int | None = field(default=None, metadata=about("most jobs computed together; null: all that are ready"))
    workers: int | None = field(
        default=None, metadata=about("processes that train and evaluate; null: one a core where it pays; same result")
    )
    address: str = field(
        default="local", metadata=about("where they are: local | auto (a Ray cluster this machine is in) | ray://...")
    )


@dataclass
class Logger:
    name: str = "wandb"
    mode: str = field(default="offline", metadata=about("offline | online | disabled"))
    project: str = field(default="fedbench", metadata=about("the project at W&B"))


_TYPES = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}
_NOT_OF_TYPE = re.compile(
    r"Value '(.*)' (?:of type '\w+' could not be converted to|is not a valid) (Integer|Float|bool)(?: \(type \w+\))?"
)
SCHEMAS: dict[str, type] = {"model": Model, "devices": Population, "engine": Engine, "logger": Logger}


def open_twin(cls: type, **more: Any) -> type:
    """The same fields, all optional and left open (null), for Hydra to hold what was given."""
    hints = get_type_hints(cls)
    columns: list[tuple[str, Any, Any]] = [(f.name, hints[f.name] | None, None) for f in fields(cls)]
    return make_dataclass(f"Open{cls.__name__}", [c for c in columns if c[0] not in more] + _typed(more))


def optional(cls: type) -> set[str]:
    """Fields for which null is a value of its own."""
    return {name for name, hint in get_type_hints(cls).items() if type(None) in get_args(hint)}


def in_words(message: str) -> str:
    """OmegaConf's message on a value of the wrong type, without names of types."""
    return _NOT_OF_TYPE.sub(lambda found: f"'{found[1]}' is not {_TYPES[found[2]]}", message)


def _typed(values: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(name, Any, value) for name, value in values.items()]
