"""Weights & Biases beside the record: offline unless asked, silent, only inside the run's folder, and never needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from bench.errors import UserError, first_line
from bench.output.result import RunResult
from bench.output.weights_and_biases import begin, give_up, has_key


def check(logger: Mapping[str, Any]) -> None:
    """Refuse an online run that could not log in; wandb itself would ask on the terminal."""
    if logger.get("mode") == "online" and not has_key():
        raise UserError(
            f"logger={logger['name']} needs a W&B key: set WANDB_API_KEY or run `wandb login`, "
            "or leave the key logger out to log offline."
        )


class Tracker:
    """A W&B run, or none, in a thread of its own: it starts, which takes seconds, while rounds are trained, and is then
    told what there was. Whatever becomes of W&B, the run goes on: its first error is a warning, and then it is none
    any more."""

    def __init__(self, begin: Callable[[], Any | None] | None) -> None:
        self._told: SimpleQueue[Callable[[Any], None] | None] = SimpleQueue()
        self._thread = None
        if begin is not None:  # daemon: a second Ctrl-C does not wait for a server that does not answer
            self._thread = Thread(target=self._listen, args=(begin,), daemon=True)
            self._thread.start()

    def log(self, row: Mapping[str, float | None]) -> None:
        self._tell(lambda run: run.log({name: value for name, value in row.items() if value is not None}))

    def finish(self, result: RunResult | None) -> None:
        """Waits until W&B has all. The summary is result.json, and one row of it a table; None: the run did not get
        that far."""
        if result is not None:
            self._tell(lambda run: _summarise(run, result))
        self._tell(lambda run: run.finish(exit_code=0 if result is not None else 1))
        self._tell(None)
        if self._thread is not None:
            self._thread.join()

    def _tell(self, what: Callable[[Any], None] | None) -> None:
        if self._thread is not None:
            self._told.put(what)

    def _listen(self, begin: Callable[[], Any | None]) -> None:
        run = begin()
        while (what := self._told.get()) is not None:
            if run is None:
                continue
            try:
                what(run)
            except Exception as error:
                run = None
                give_up()
                _warn(f"W&B stopped ({_reason(error)}): the run goes on without it, and its record is whole.")


def start(config: Mapping[str, Any], folder: Path) -> Tracker:
    """One W&B run for the run in `folder`; none with logger=none."""
    if config["logger"]["mode"] == "disabled":
        return Tracker(None)
    home = folder.resolve() / "wandb"
    os.environ["WANDB_CACHE_DIR"] = str(home / "cache")
    os.environ["WANDB_DATA_DIR"] = str(home / "data")
    return Tracker(partial(_begun, config, home))


def _begun(config: Mapping[str, Any], home: Path) -> Any | None:
    """A server that does not answer gets the run later, by `wandb sync`."""
    mode = config["logger"]["mode"]
    try:
        return _begun_as(mode, config, home)
    except Exception as error:
        give_up()
        reason = _reason(error)
    if mode == "online":
        try:
            offline = _begun_as("offline", config, home)
            _warn(f"W&B does not answer ({reason}): this run is logged offline; wandb sync {home}/offline-run-* later.")
            return offline
        except Exception as error:
            give_up()
            reason = _reason(error)
    _warn(f"W&B does not start ({reason}): the run goes on without it, and its record will be whole.")
    return None


def _begun_as(mode: str, config: Mapping[str, Any], home: Path) -> Any:
    return begin(
        project=config["logger"]["project"],
        id=home.parent.name,
        name=home.parent.name,
        group=config.get("group"),
        dir=home.parent,
        mode=mode,
        config=dict(config),
        resume="allow" if mode == "online" else None,
    )


def _summarise(run: Any, result: RunResult) -> None:
    import wandb

    row = result.flat()
    run.log({"results": wandb.Table(columns=list(row), data=[list(row.values())])})
    run.summary.update(result.to_dict())


def _reason(error: Exception) -> str:
    return first_line(error) or type(error).__name__


def _warn(sentence: str) -> None:
    print(f"warning: {sentence}", file=sys.stderr, flush=True)
