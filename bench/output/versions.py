"""Versions of what is kept: config.yaml, result.json, checkpoints, committed results. What is older is read as if new.

Each of them has the number FORMAT of the code that wrote it; without one it is 1. A key that is added, and a value
that is given another name, raise FORMAT and get a line in CONFIG or RESULT; a change of a checkpoint's state one in
`upgrade_checkpoint`. tests/fixtures/ has runs of every format.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.errors import UserError
from bench.metrics import ACCURACY

# 3: digests (bench/output/digests.py) and fingerprints of data and own code; 4: readings; 5: local optimisers;
# 6: checkpoints within a round
# 7: when places are filled; 8: decay of the rate, clipping, checkpoints of buffers that are taken as a whole
# 9: transforms of uploads, tasks, whether the model is kept
FORMAT = 9


@dataclass(frozen=True)
class Added:
    """A key that came with a format: runs of older ones had this value without saying so."""

    format: int
    key: str  # as on the command line: devices.loss
    value: Any
    option: str | None = None  # only where its group has this name: fedlga, for a key of algo=fedlga

    def upgrade(self, content: dict[str, Any]) -> None:
        group, dot, _ = self.key.partition(".")
        if dot and self.option is None:
            content.setdefault(group, {})  # which may have come with the key
        node, name = _place(content, self.key)
        if node is not None and self.option in (None, node.get("name")):
            node.setdefault(name, self.value)

    def downgrade(self, content: dict[str, Any]) -> None:
        node, name = _place(content, self.key)
        if node is not None and node.get(name) == self.value and self.option in (None, node.get("name")):
            node.pop(name, None)
            group = self.key.partition(".")[0]
            if content.get(group) == {}:
                del content[group]


@dataclass(frozen=True)
class Renamed:
    """A value that has another name since a format."""

    format: int
    key: str
    old: str
    new: str

    def upgrade(self, content: dict[str, Any]) -> None:
        self._replace(content, self.old, self.new)

    def downgrade(self, content: dict[str, Any]) -> None:
        self._replace(content, self.new, self.old)

    def _replace(self, content: dict[str, Any], before: str, after: str) -> None:
        node, name = _place(content, self.key)
        if node is not None and node.get(name) == before:
            node[name] = after


Changes = Sequence[Added | Renamed]
READINGS = {  # fields of methods with which a paper can be read otherwise, as it was read before
    ("fedagg",): {"phi1": "sum"},
    ("fedlga",): {"product": "outer", "times": "once"},
    ("fed2a",): {"plu": "download", "unsent": "replaced", "t_k": "download"},
    ("fedlc", "sc_fedlc", "fedlc_t"): {"eta_of": "step", "localcol_order": "index"},
}
CONFIG: Changes = (
    Renamed(2, "engine.name", "cohort", "vmap"),
    *(
        Added(4, f"algo.{field}", value, option=name)
        for names, fields in READINGS.items()
        for name in names
        for field, value in fields.items()
    ),
    Added(5, "optimizer.name", "sgd"),
    Added(7, "refill", None),
    Added(8, "lr_decay", 1.0),
    Added(8, "clip_norm", None),
    Added(9, "upload.name", "none"),
    Added(9, "keep_model", None),
    Added(9, "task.name", "classification"),
    Added(9, "task._target_", "bench.tasks.classification.Classification"),
)
RESULT: Changes = (Renamed(2, "engine", "cohort", "vmap"), Added(9, "metric", asdict(ACCURACY)))


def upgraded(content: Mapping[str, Any], changes: Changes, path: object) -> dict[str, Any]:
    """As this version would have written it, without the number of its format."""
    found: dict[str, Any] = copy.deepcopy(dict(content))
    number = readable(found.pop("format", 1), path)
    for change in changes:
        if change.format > number:
            change.upgrade(found)
    return found


def first_form(config: Mapping[str, Any]) -> dict[str, Any]:
    """As the first version would have written a config, where it could: what the name of a result is made of."""
    found = copy.deepcopy(dict(config))
    for change in reversed(CONFIG):
        change.downgrade(found)
    return found


def upgrade_checkpoint(state: dict[str, Any], number: int) -> dict[str, Any]:
    """The state of a loop (bench/simulation/loop.py) that a checkpoint of this format holds."""
    if number < 2:
        for job in (*state["jobs"], *state["arrived"]):
            job["number"], job["trainable"] = job.pop("dispatch"), job.pop("started")
            job["learned"] = _learned(job.pop("result"))
    if number < 6:  # which were written between rounds
        state |= {"tally": None, "ended": [], "again": None}
    if number < 9:
        state |= {"transforms": {"memory": {}, "uploads": {}}}
    return state


def _learned(result: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a job had learned in the first format: numbers and vectors of its own, now a row of a table."""
    if result is None:
        return None
    delta = result["delta"]
    names = {"steps": "steps", "effective_steps": "units", "lr_sum": "lr_sum", "loss": "loss"}
    return {
        "delta": delta[None],
        "extra": {name: value[None] for name, value in result["extra"].items()},
        "memory": {},
        "gradient": None,
        "end": None,
        **{new: delta.new_tensor([result[old]]) for new, old in names.items()},
        "evaluations": delta.new_tensor([result["evaluations"]]).long(),
    }


def readable(number: Any, path: object) -> int:
    """The number of a format, unless it is one of a later version."""
    if not isinstance(number, int) or number > FORMAT:
        raise UserError(f"{path} was written by a newer version of fedbench (format {number}, here {FORMAT}): update.")
    return number


def _place(content: dict[str, Any], key: str) -> tuple[dict[str, Any] | None, str]:
    """The mapping that holds a key, None if there is none, and the key's name in it."""
    *groups, name = key.split(".")
    node: Any = content
    for group in groups:
        node = node.get(group) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None, name
