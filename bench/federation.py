"""Federation puts the federated loop under Lightning's Trainer: one epoch is one reporting round."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import datamodules._ops  # noqa: F401  # before Lightning

# isort: split
import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.loggers import Logger
from pytorch_lightning.plugins.io import TorchCheckpointIO

from bench.record import Record

Values = dict[str, float | None]


class Loop(Protocol):
    """What the adapter needs of bench.loop.FederatedLoop."""

    @property
    def round(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    def advance(self) -> dict[str, float]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Federation(pl.LightningModule):
    """Advances the loop, evaluates, writes the record and checkpoints; has no parameters of its own.

    The loop and the user's LocalModule behind it stay outside the module registry: as a child, LocalModule's
    `self.log` would raise.
    """

    def __init__(
        self,
        loop: Loop,
        evaluate: Callable[[], tuple[float, float]],
        record: Record,
        *,
        eval_every: int,
        checkpoint_seconds: float,
        on_begin: Callable[[], None],
        on_round: Callable[[Values], None],
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.federated_loop = loop
        self.evaluate = evaluate
        self.record = record
        self.eval_every = eval_every
        self.checkpoint_seconds = checkpoint_seconds
        self.on_begin = on_begin
        self.on_round = on_round
        self.interrupted = False
        self._started = self._saved = 0.0

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Lightning calls this; it would drop the engine's gradient views."""

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Does nothing; without its steps `global_step` stays 0 and no ModelCheckpoint writes anything."""
        return torch.optim.SGD([torch.zeros(1)], lr=0.0)

    def train_dataloader(self) -> _OneRound:
        return _OneRound()

    def on_train_start(self) -> None:
        rows = self.record.rows
        self._saved = time.monotonic()
        self._started = self._saved - (rows[-1]["wall_seconds"] if rows else 0.0)
        self.trainer.should_stop = self.federated_loop.finished
        self.on_begin()

    def training_step(self, batch: Any, batch_idx: int) -> None:
        loop = self.federated_loop
        values: Values = {**loop.advance()}
        evaluated = loop.finished or loop.round % self.eval_every == 0
        values["test_loss"], values["test_accuracy"] = self.evaluate() if evaluated else (None, None)
        values["wall_seconds"] = time.monotonic() - self._started
        self.record.append(values)
        if self.logger is not None:
            self.logger.log_metrics({name: value for name, value in values.items() if value is not None})
        optimizer = self.optimizers()
        assert isinstance(optimizer, pl.core.optimizer.LightningOptimizer)
        optimizer.step()
        self.on_round(values)
        self.trainer.should_stop = loop.finished or self.interrupted

    def on_train_epoch_end(self) -> None:
        due = time.monotonic() - self._saved >= self.checkpoint_seconds
        if (due or self.interrupted) and not self.federated_loop.finished:
            self.trainer.save_checkpoint(checkpoint_path(self.record.folder))
            self._saved = time.monotonic()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["federation"] = {"round": self.federated_loop.round, "loop": self.federated_loop.state_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["federation"]
        self.federated_loop.load_state_dict(state["loop"])
        self.record.truncate(state["round"])


class _OneRound:
    """A data loader of one batch; torch's own would draw from the global random state."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[int]:
        yield 0


class AtomicCheckpoint(TorchCheckpointIO):
    """A checkpoint is there in full or not at all; Lightning's own goes through the system's temporary folder."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def checkpoint_path(folder: Path) -> Path:
    return folder / "checkpoints" / "last.ckpt"


def trainer(folder: Path, logger: Logger | None) -> pl.Trainer:
    """A Trainer that only drives rounds: the loop says when to stop, the engine where to compute."""
    return pl.Trainer(
        max_epochs=-1,
        accelerator="cpu",
        devices=1,
        logger=logger or False,
        default_root_dir=folder,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        # named, or Lightning would look for SLURM and take over its signals
        plugins=[LightningEnvironment(), AtomicCheckpoint()],
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Without Lightning's notes on GPUs, workers and tips, which are about trainers of another kind."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning_fabric)(\.|$)")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
