"""Weights & Biases beside the record: offline unless asked, silent, only inside the run's folder, and never needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
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
    """A W&B run, or none. Whatever becomes of W&B, the run goes on: its first error is a warning, and then it is none
    any more."""

    def __init__(self, run: Any | None) -> None:
        self.run = run

    def log(self, row: Mapping[str, float | None]) -> None:
        self._do(lambda run: run.log({name: value for name, value in row.items() if value is not None}))

    def finish(self, result: RunResult | None) -> None:
        """The summary is result.json, and one row of it a table; None: the run did not get that far."""
        if result is not None:
            self._do(lambda run: _summarise(run, result))
        self._do(lambda run: run.finish(exit_code=0 if result is not None else 1))

    def _do(self, what: Callable[[Any], None]) -> None:
        if self.run is None:
            return
        try:
            what(self.run)
        except Exception as error:
            self.run = None
            give_up()
            _warn(f"W&B stopped ({_reason(error)}): the run goes on without it, and its record is whole.")


def start(config: Mapping[str, Any], folder: Path) -> Tracker:
    """One W&B run for the run in `folder`; none with logger=none. A server that does not answer gets it later, by
    `wandb sync`."""
    logger = config["logger"]
    if logger["mode"] == "disabled":
        return Tracker(None)
    home = folder.resolve() / "wandb"
    os.environ["WANDB_CACHE_DIR"] = str(home / "cache")
    os.environ["WANDB_DATA_DIR"] = str(home / "data")

    def begun(mode: str) -> Tracker:
        run = begin(
            project=logger["project"],
            id=folder.name,
            name=folder.name,
            group=config.get("group"),
            dir=home.parent,
            mode=mode,
            config=dict(config),
            resume="allow" if mode == "online" else None,
        )
        return Tracker(run)

    try:
        return begun(logger["mode"])
    except Exception as error:
        give_up()
        reason = _reason(error)
    if logger["mode"] == "online":
        try:
            offline = begun("offline")
            _warn(f"W&B does not answer ({reason}): this run is logged offline; wandb sync {home}/offline-run-* later.")
            return offline
        except Exception as error:
            give_up()
            reason = _reason(error)
    _warn(f"W&B does not start ({reason}): the run goes on without it, and its record will be whole.")
    return Tracker(None)


def _summarise(run: Any, result: RunResult) -> None:
    import wandb

    row = result.flat()
    run.log({"results": wandb.Table(columns=list(row), data=[list(row.values())])})
    run.summary.update(result.to_dict())


def _reason(error: Exception) -> str:
    return first_line(error) or type(error).__name__


def _warn(sentence: str) -> None:
    print(f"warning: {sentence}", file=sys.stderr, flush=True)
