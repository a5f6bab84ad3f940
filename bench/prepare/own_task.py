"""A task of the user's is tried on a chunk of the test set, before the first round."""

from __future__ import annotations

import torch
from torch import Tensor

from bench import own_code
from bench.errors import UserError
from bench.learning.evaluate import Evaluate
from bench.tasks.base import Task


def try_out(evaluate: Evaluate, w: Tensor) -> None:
    """Refuses hooks that do not give what every run needs of them."""
    task = evaluate.task
    outputs, y = next(iter(evaluate.outputs(w, [0])))
    outputs = outputs.detach().requires_grad_()
    with own_code.calling(task, "loss"):
        losses, total = task.loss(outputs, y), task.loss(outputs, y, "sum")
    _each(task, "loss", losses, y)
    if not losses.requires_grad:
        raise _wrong(task, "loss", "numbers that do not depend on the outputs", "differentiable")
    if not (isinstance(total, Tensor) and total.dim() == 0 and torch.isclose(total, losses.sum(), rtol=1e-4)):
        raise _wrong(task, "loss", f'{_form(total)} with reduction="sum"', "the sum of the samples' losses")
    with own_code.calling(task, "score"):
        scores = task.score(outputs, y)
    _each(task, "score", scores, y)
    means = scores.double().mean().detach().expand(2)
    with own_code.calling(task, "value"):
        values = task.value(means, evaluate.unit)
    if not (isinstance(values, Tensor) and values.shape == means.shape):
        raise _wrong(task, "value", _form(values), "as many numbers as it is given, each made of one of them")
    with own_code.calling(task, "blind"):
        blind = task.blind(y)
    if blind is not None and not (isinstance(blind, tuple) and len(blind) == 2 and isinstance(blind[1], Tensor)):
        raise _wrong(task, "blind", _form(blind), "(words, a mean score as a tensor), or None")


def _each(task: Task, hook: str, found: object, y: Tensor) -> None:
    if not (isinstance(found, Tensor) and found.shape == y.shape):
        raise _wrong(task, hook, f"{_form(found)} for {len(y)} samples", f"one number for each, of shape [{len(y)}]")
    if not found.isfinite().all():
        raise _wrong(task, hook, "numbers that are not finite for the first samples", "finite")


def _form(found: object) -> str:
    return f"shape {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__


def _wrong(task: Task, hook: str, found: str, expected: str) -> UserError:
    return UserError(f"{hook} of {own_code.target(type(task))} returned {found}: it has to be {expected}.")
