"""What the contract does with a loop: to its end, into another, beside another."""

import io
from dataclasses import fields

import pytest
import torch

from bench.record import TIMES


def finish(loop):
    while not loop.finished:
        row = loop.advance()
    return row


def state(loop):
    """All that a method keeps, by name, and what its devices remember of their uploads."""
    memory = {f"client {key}": loop.memory.rows(key) for key in loop.memory.initial}
    uploads = {f"upload {key}": loop.transforms.memory.rows(key) for key in loop.transforms.memory.initial}
    return {**loop.server, **memory, **uploads}


def watch(loop, **hooks):
    """Has these hooks of the loop's method called through functions of (hook, *arguments)."""
    algo = loop.algo.method
    own = {
        name: lambda self, *a, name=name, through=through: through(getattr(algo, name), *a)
        for name, through in hooks.items()
    }
    watched = type("Watched", (type(algo),), own)(**{f.name: getattr(algo, f.name) for f in fields(algo)})
    vars(loop.algo)["method"] = watched


def interrupt(loop, other):
    """Gives `other` the state of `loop`, by way of a file."""
    file = io.BytesIO()
    torch.save(loop.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))


def same_end(loop, other):
    row, again = ({k: v for k, v in finish(x).items() if k not in TIMES} for x in (loop, other))
    assert row == pytest.approx(again, rel=0, abs=0, nan_ok=True)
    one, two = state(loop), state(other)
    assert one.keys() == two.keys()
    for key, value in one.items():
        assert torch.equal(value, two[key]), key


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    if hasattr(value, "__dataclass_fields__") and not hasattr(value, "layout"):
        return [t for f in fields(value) for t in tensors(getattr(value, f.name))]
    return []
