"""Weights & Biases beside the record: offline unless asked, silent, and only inside the run's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import UserError
from bench.output.result import RunResult
from bench.output.weights_and_biases import begin, has_key

if TYPE_CHECKING:
    from pytorch_lightning.loggers import WandbLogger


def check(logger: Mapping[str, Any]) -> None:
    """Refuse an online run that could not log in; wandb itself would ask on the terminal."""
    if logger.get("mode") == "online" and not has_key():
        raise UserError(
            f"logger={logger['name']} needs a W&B key: set WANDB_API_KEY or run `wandb login`, "
            "or leave the key logger out to log offline."
        )


def start(config: Mapping[str, Any], folder: Path) -> WandbLogger | None:
    """One W&B run for the run in `folder`; None with logger=none."""
    logger = config["logger"]
    if logger["mode"] == "disabled":
        return None
    import datamodules._torchvision  # noqa: F401  # isort: skip
    from pytorch_lightning.loggers import WandbLogger

    home = folder.resolve() / "wandb"
    os.environ["WANDB_CACHE_DIR"] = str(home / "cache")
    os.environ["WANDB_DATA_DIR"] = str(home / "data")
    run = begin(
        project=logger["project"],
        id=folder.name,
        name=folder.name,
        group=config.get("group"),
        dir=home.parent,
        mode=logger["mode"],
        config=dict(config),
        resume="allow" if logger["mode"] == "online" else None,
    )
    return WandbLogger(experiment=run)


def finish(logger: WandbLogger | None, result: RunResult | None) -> None:
    """The summary is result.json, and one row of it a table; None: the run did not get that far."""
    if logger is None:
        return
    if result is not None:
        row = result.flat()
        logger.log_table("results", columns=list(row), data=[list(row.values())])
        logger.experiment.summary.update(result.to_dict())
    logger.experiment.finish(exit_code=0 if result is not None else 1)
