"""Federation puts the federated loop under Lightning's Trainer: one epoch is one reporting round."""

from __future__ import annotations

import logging
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bench.checkpoint import START_OVER, AtomicCheckpoint, checkpoint_path, damaged, sealed
from bench.engine.steps import Stopped
from bench.errors import cannot_write
from bench.learning.lightning import LightningEnvironment, pl
from bench.output import digests, versions
from bench.output.timeline import Log
from bench.record import Record
from bench.simulation.figures import Figures, after_round
from bench.simulation.loop import FederatedLoop

Values = dict[str, float | None]


class Federation(pl.LightningModule):
    """Advances the loop, evaluates, writes the record and checkpoints; has no parameters of its own.

    The loop and the user's LocalModule behind it stay outside the module registry: as a child, LocalModule's
    `self.log` would raise.
    """

    def __init__(
        self,
        loop: FederatedLoop,
        evaluate: Figures,
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
        self.record, self.timeline = record, Log(record.folder)
        self.eval_every, self.checkpoint_seconds = eval_every, checkpoint_seconds
        self.on_begin, self.on_round = on_begin, on_round
        self.interrupted = False
        self.unreported: Values | None = None  # what a round that is not evaluated yet has come to
        self._started = self._saved = 0.0

    @property
    def rounds(self) -> int:
        """Those that are evaluated and recorded."""
        return self.federated_loop.round - (self.unreported is not None)

    @property
    def finished(self) -> bool:
        return self.federated_loop.finished and self.unreported is None

    def stop(self) -> None:
        """Leaves the round where it is, and writes a checkpoint."""
        self.interrupted = True
        self.federated_loop.stop()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Lightning calls this; it would drop the engine's gradient views."""

    def configure_optimizers(self) -> Any:
        """Does nothing; without its steps `global_step` stays 0 and no ModelCheckpoint writes anything."""
        return _Idle()

    def train_dataloader(self) -> Sequence[int]:
        """One batch; torch's own loader would draw from the global random state."""
        return range(1)

    def on_train_start(self) -> None:
        rows = self.record.rows
        self._saved = time.monotonic()
        self._started = self._saved - (rows[-1]["wall_seconds"] if rows else 0.0)
        self.trainer.should_stop = self.finished
        self.on_begin()

    def training_step(self, batch: Any, batch_idx: int) -> None:
        loop = self.federated_loop
        try:
            self.unreported = self.unreported or {**loop.advance()}
            values = self.unreported | after_round(self.evaluate, self.eval_every)
        except Stopped:
            self.trainer.should_stop = True
            return
        self.unreported = None
        values["wall_seconds"] = time.monotonic() - self._started
        self.record.append(values)
        with self._writing(self.timeline.path):
            self.timeline.append(loop.round, loop.ended)
        loop.ended = []
        optimizer = self.optimizers()
        assert isinstance(optimizer, pl.core.optimizer.LightningOptimizer)
        optimizer.step()
        self.on_round(values)
        self.trainer.should_stop = self.finished or self.interrupted

    def on_train_epoch_end(self) -> None:
        due = time.monotonic() - self._saved >= self.checkpoint_seconds
        if (due or self.interrupted) and not self.finished:
            path = checkpoint_path(self.record.folder)
            with self._writing(path):
                self.trainer.save_checkpoint(path)
            self.record.checkpointed = self.rounds
            self._saved = time.monotonic()

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise cannot_write(path, error, self.record.how_to_go_on()) from None

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        loop = self.federated_loop
        checkpoint["federation"] = {
            "format": versions.FORMAT,
            "round": self.rounds,
            "unreported": self.unreported,
            "loop": loop.state_dict(),
            "digests": {
                "config.yaml": digests.of((self.record.folder / "config.yaml").read_bytes()),
                "metrics.csv": self.record.written.hexdigest(),
                "timeline.csv": self.timeline.written.hexdigest(),
            },
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state, loop = checkpoint["federation"], self.federated_loop
        path = checkpoint_path(self.record.folder)
        number = versions.readable(state.get("format", 1), path)
        if number >= digests.SINCE:
            if not sealed(path):
                raise damaged(path, "its checksum is missing")
            self._check(state)
        try:
            of_loop = versions.upgrade_checkpoint(state["loop"], number)
            if _shapes(of_loop) != _shapes(loop.state_dict()):
                raise ValueError("vectors of another length")
            loop.load_state_dict(of_loop)
            self.unreported = state.get("unreported")
        except (AttributeError, KeyError, TypeError, ValueError):
            raise damaged(path, "it does not belong to this config") from None
        self.record.truncate(state["round"])
        self.timeline.truncate(state["round"])

    def _check(self, state: dict[str, Any]) -> None:
        """Refuses a config, rows or jobs that are not those which the checkpoint was written with."""
        folder, round = self.record.folder, state["round"]
        texts = {
            "config.yaml": (folder / "config.yaml").read_text(encoding="utf-8"),
            "metrics.csv": self.record.kept(round),
            "timeline.csv": self.timeline.kept(round),
        }
        for name, text in texts.items():
            if digests.of(text) != state["digests"][name]:
                undo = "undo that, or start a new run" if name == "config.yaml" else START_OVER
                raise digests.changed(folder / name, undo)


class _Idle:
    """What Lightning asks of an optimiser; to make or step one of torch's own would import torch's compiler."""

    def __init__(self) -> None:
        self.param_groups: list[dict[str, Any]] = []
        self.defaults: dict[str, Any] = {}
        self.state: defaultdict[torch.Tensor, Any] = defaultdict(dict)

    def step(self, closure: Callable[[], Any]) -> Any:
        return closure()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Earlier checkpoints hold that of torch's SGD."""


def _shapes(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.shape for name, value in state.get("server", {}).items()}


def trainer(folder: Path) -> pl.Trainer:
    """A Trainer that only drives rounds: the loop says when to stop, the engine where to compute."""
    return pl.Trainer(
        max_epochs=-1,
        accelerator="cpu",
        devices=1,
        logger=False,
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
