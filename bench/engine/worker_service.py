"""What can be asked of any process that holds the data and the model; its answers depend on the question alone."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from algorithms.base import Algorithm, Fed, Jobs, LocalRule, Trained
from bench.engine.base import Engine
from bench.engine.steps import Stopped
from bench.engine.trace import TraceRows
from bench.learning.evaluate import Evaluate

T = TypeVar("T")
Constants = dict[str, Any]  # the numbers in Fed
Tuning = tuple[LocalRule, int]  # how devices fine-tune, and for how many epochs


def constants(fed: Fed) -> Constants:
    return {name: value for name, value in vars(fed).items() if isinstance(value, int | float)}


@dataclass(frozen=True)
class WorkerService:
    """Nothing is kept between two calls."""

    engine: Engine
    fed: Fed
    evaluate: Evaluate

    def train(
        self, algo: Algorithm, given: Constants, jobs: Jobs, dispatch: Sequence[int], traced: bool
    ) -> tuple[Trained, list[int], TraceRows | None]:
        rows = TraceRows() if traced else None
        trained, evaluations = self.engine.train(algo, replace(self.fed, **given), jobs, dispatch, rows)
        return trained, evaluations, rows

    def test(self, models: Tensor, first: int, last: int) -> Tensor:
        """[n, 2]: summed loss and scores of the pieces first, ..., last - 1 of `models` [M, P] on the test set's
        chunks, where piece m * chunks + c is model m on chunk c."""
        chunks, found = self.evaluate.chunks, []
        for model in range(first // chunks, -(-last // chunks)):
            begin, end = max(first - model * chunks, 0), min(last - model * chunks, chunks)
            found.append(self.evaluate.sums(models[model - first // chunks], self._unless_stopped(range(begin, end))))
        return torch.cat(found)

    def personal(self, deployed: Tensor, devices: Sequence[int], tuning: Tuning | None) -> Tensor:
        """[devices, 3 or 5]: of what is deployed on each, the test loss and the metric over the samples of the classes
        it holds and over all; then the metric after its fine-tuning. Without classes only over all: [devices, 2 or 3].
        One model [P] is every device's."""
        evaluate = self.evaluate
        shared = evaluate.answers(deployed) if deployed.dim() == 1 else None
        rows = []
        for k, device in enumerate(self._unless_stopped(devices)):
            w = deployed if shared is not None else deployed[k]
            loss, scores = shared or evaluate.answers(w)
            own = [torch.isin(evaluate.y, self.engine.batches.labels(device))] if evaluate.task.by_class else []
            row = [loss, *self._values(scores, own)]
            if tuning is not None:
                row += self._values(evaluate.answers(self.engine.tune(self.fed, w, device, *tuning))[1], own)
            rows.append(row)
        return evaluate.y.new_tensor(rows, dtype=torch.float64)

    def _values(self, scores: Tensor, parts: Sequence[Tensor]) -> list[float]:
        """The metric over parts of the test set, and over all of it."""
        scores = scores.double()
        return [float(self.evaluate.value(some.mean())) for some in (*(scores[part] for part in parts), scores)]

    def _unless_stopped(self, numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            self.engine.steps.look()
            yield number


def answer(service: WorkerService, name: str, call: tuple[Any, ...], write: Callable[[Any], T]) -> T:
    """What the service says and None, or None and the error that was raised, written to be sent to another process."""
    try:
        return write((getattr(service, name)(*call), None))
    except (Exception, Stopped) as error:
        return write((None, _portable(error)))


def _portable(error: BaseException) -> BaseException:
    """The error with its traceback as a note, in a form that can be sent."""
    text = f"In a worker process:\n{''.join(traceback.format_exception(error)).rstrip()}"
    try:
        error.add_note(text)
        found: BaseException = pickle.loads(pickle.dumps(error))
        return found
    except Exception:
        return RuntimeError(text)
