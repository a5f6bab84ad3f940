"""Benchmarks from a program or a notebook: `from bench import federate`."""

from __future__ import annotations

import io
import math
import os
import secrets
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.base import Algorithm
from bench import own_code, trust
from bench.errors import UserError, of_machine
from bench.metrics import Metric
from bench.output.result import RunResult
from bench.prepare import compose, given_data, own_files, plugins, registry
from bench.prepare.compose import ComposedRun
from bench.prepare.resolve import describe
from bench.record import Run, read
from datamodules.base import DataError
from datamodules.partition import Partition

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

LOGGER = "none"  # where the command line has wandb: a program has the numbers at hand


@dataclass(frozen=True)
class Result:
    """A finished run: its numbers, its folder, and the model it ended with."""

    run: Run
    model: nn.Module

    @property
    def folder(self) -> Path:
        """The record: config.yaml, metrics.csv, result.json."""
        return self.run.folder

    @property
    def rounds(self) -> pd.DataFrame:
        """A row a reporting round, as in metrics.csv."""
        from bench.output.frames import rounds_frame

        return rounds_frame([self.run])

    @property
    def metric(self) -> Metric:
        """What `final` and `best` are numbers of: accuracy, or that of another task."""
        return self._result.metric

    @property
    def final(self) -> float:
        """Of the last round, on the test data."""
        return math.nan if self._result.final is None else self._result.final

    @property
    def best(self) -> float:
        return math.nan if self._result.best is None else self._result.best

    @property
    def accuracy(self) -> float:
        """`final`, where that is an accuracy."""
        if self.metric.name != "accuracy":
            raise UserError(f"This run is judged by {self.metric.label}: result.final has it.")
        return self.final

    @property
    def rounds_to_target(self) -> int | None:
        """None: never."""
        return self._result.rounds_to_target

    @property
    def _result(self) -> RunResult:
        assert self.run.result is not None
        return self.run.result

    def __repr__(self) -> str:
        config, reached, metric = self.run.config, self.rounds_to_target, self.metric
        when = "never" if reached is None else f"after {reached} rounds"
        return (
            f"{config['algo']['name']} on {config['dataset']['name']}, seed {config['seed']}: {metric.label} "
            f"{metric.text(self.final)}, target {metric.goal(config['target'])} {when}; {self.folder}"
        )


@dataclass(frozen=True)
class Results(Sequence[Result]):
    """Runs that are compared: with the same seed they share devices, batches and stragglers."""

    results: tuple[Result, ...]

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: Any) -> Any:
        return Results(self.results[index]) if isinstance(index, slice) else self.results[index]

    @property
    def runs(self) -> list[Run]:
        return [result.run for result in self.results]

    def table(self) -> pd.DataFrame:
        """A row a run: the keys that were set, then the numbers."""
        from bench.output.frames import runs_frame

        return runs_frame(self.runs)

    @property
    def rounds(self) -> pd.DataFrame:
        """A row a reporting round of every run."""
        from bench.output.frames import rounds_frame

        return rounds_frame(self.runs)

    def plot(self) -> Figure:
        """Learning curves over rounds, virtual time and traffic, a band of 95 % over seeds."""
        from bench.output.curves import drawn

        figure = drawn(self.runs)
        figure._repr_png_ = partial(_png, figure)  # type: ignore[attr-defined]  # notebooks know those of pyplot only
        return figure

    def __str__(self) -> str:
        from bench.output.tables import leaderboard

        return leaderboard(self.runs)


def _png(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


class Federate:
    """`federate(...)` runs one benchmark, `federate.many(...)` several that are compared."""

    def __call__(
        self,
        algo: str | type[Algorithm] | Algorithm = "fedavg",
        *,
        dataset: Any = "digits",
        model: Any = None,
        partition: str | type[Partition] | Partition | None = None,
        resume: str | Path | None = None,
        progress: bool = True,
        **keys: Any,
    ) -> Result:
        """Runs a federated benchmark to its end and returns its numbers and its model.

        `algo`, `dataset` and `partition` take a name, a file of yours (`./mine.py`), a class or an object of one;
        `dataset` also a pair (train, test) of torch data sets or of (x, y) arrays, or a LightningDataModule; `model` a
        name, an nn.Module (its numbers are the first model's) or a LightningModule. All other keys are those of the
        command line, `**{"partition.alpha": 0.3}` where they have a dot; `python bench.py --help` lists them. With the
        same seed the same bits come out. `resume` is the folder of a run that was stopped, for which nothing else but
        the objects it was made of is given. What is wrong is told by a `bench.errors.UserError`; Ctrl-C raises
        KeyboardInterrupt, and the run can be resumed. `progress=False` prints nothing.
        """
        chosen = {"algo": algo, "dataset": dataset, "model": model, "partition": partition}
        with registry.borrowed(), _printing(progress), _told():
            if resume is not None:
                given = {key: what for key, what in chosen.items() if not isinstance(what, str | None)} | keys
                return _run(compose.plan([f"resume={resume}", *_words(given)], multirun=False)[0], None)
            words = _words(chosen | {"logger": LOGGER} | keys)
            return _run(compose.plan(words, multirun=False)[0], None)

    def many(self, algos: Iterable[Any], *, seeds: Iterable[int] = (0,), progress: bool = True, **keys: Any) -> Results:
        """The same benchmark for several methods and seeds, paired by the seed; keys as for `federate`."""
        group = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        chosen = {"dataset": "digits", "logger": LOGGER} | keys
        pairs, found = list(product(algos, seeds)), []
        if not pairs:
            raise UserError("Nothing to run: federate.many needs a method and a seed at least.")
        with registry.borrowed(), _printing(progress), _told():
            lines = [_words({"algo": algo} | chosen | {"seed": seed}) for algo, seed in pairs]
            runs = [compose.plan(words, multirun=False)[0] for words in lines]  # all are checked before one is run
            for number, composed in enumerate(compose.of_many(runs), start=1):
                print(f"\n--- run {number} of {len(runs)}: {' '.join(composed.words)}", flush=True)
                found.append(_run(composed, group))
        return Results(tuple(found))


federate = Federate()


def _run(composed: ComposedRun, group: str | None) -> Result:
    from bench.run import run

    kept: list[Any] = []
    print("\n".join(describe(composed.config)), flush=True)
    plugins.require(composed.config["dataset"])
    of_program = {"group": group, "command": shlex.join(["federate", *composed.words])}
    new = composed.resume is None
    run(
        composed.config | of_program if new else composed.config,
        resume=composed.resume,
        smaller=lambda: composed.smaller if new else None,
        on_record=kept.append,
        on_model=kept.append,
    )
    folder, module = kept
    return Result(read(folder), module)


@contextmanager
def _told() -> Iterator[None]:
    """What a user did wrong, or a machine lacks, is a UserError with the sentence that the command prints."""
    try:
        yield
    except UserError:
        raise
    except DataError as error:
        raise UserError(str(error)) from error
    except Exception as error:
        if (known := of_machine(error)) is None:
            raise
        raise known from error


def _words(chosen: dict[str, Any]) -> list[str]:
    """As on the command line; what is left open is left out."""
    words: list[str] = []
    chosen = {key: what for key, what in chosen.items() if what is not None or key not in ("model", "partition")}
    for key, what in chosen.items():
        if key in registry.BASES and not isinstance(what, str):
            words += _option(key, what, chosen)
        elif key == "model" and not isinstance(what, str):
            words += ["model=custom", f"model.target={_module(what)}"]
        else:
            words.append(f"{key}={_text(what)}")
    return words


def _option(group: str, what: Any, chosen: Mapping[str, Any]) -> list[str]:
    """A class of ours or of the program's, or an object of one: its name, and the fields that it was made with."""
    cls = what if isinstance(what, type) else type(what)
    if not issubclass(cls, registry.BASES[group]):
        if group == "dataset":
            registry.register(given_data.Given)
            digest, words = given_data.put(what)
            return ["dataset=given", f"dataset.data={digest}", *(w for w in words if w.partition("=")[0] not in chosen)]
        base = registry.BASES[group].__name__
        raise UserError(f"{group} is {cls.__name__}: it has to be a name, a file, a class that extends {base}, or one.")
    name = own_files.option(group, cls)
    own: Any = cls() if isinstance(what, type) else what
    return [f"{group}={name}", *(f"{group}.{f.name}={_text(getattr(own, f.name))}" for f in fields(own))]


def _module(what: Any) -> str:
    """Keeps a network under the digest of its structure and numbers."""
    import hashlib

    from torch import nn

    from bench import given

    if not isinstance(what, nn.Module):
        raise UserError(f"model is {type(what).__name__}: it has to be a name, an nn.Module or a LightningModule.")
    digest = hashlib.sha256(f"{own_code.target(type(what))}\n{what!r}".encode())
    for name, tensor in what.state_dict().items():
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    name = given.put(digest.hexdigest()[:16], what)
    trust.name(name)
    return name


def _text(value: Any) -> str:
    """A value as it is typed."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_text(one)}" for key, one in value.items()) + "}"
    return str(value)


@contextmanager
def _printing(progress: bool) -> Iterator[None]:
    if progress:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
