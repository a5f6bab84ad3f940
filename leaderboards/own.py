"""Numbers that this repository's own models give, without any other number of a paper."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from bench.metrics import BYTES_PER_PARAMETER, MB, upload_cost
from leaderboards.apart import answers
from leaderboards.ledger import Claim

# the images of Fed2A's three data sets: (channels, height, width), classes
IMAGES = {"fmnist": ((1, 28, 28), 10), "cifar10": ((3, 32, 32), 10), "gtsrb": ((3, 32, 32), 43)}
COUNT = """
import json, sys
import numpy as np
from bench.learning.flat import Layout
from bench.prepare import compose
from bench.models import build
def count(keys, shape, classes):
    model = compose.config(keys)["model"]
    layout = Layout(build(model, tuple(shape), classes, np.random.default_rng(0)))
    return int(layout.sizes[~layout.deep].sum()), int(layout.sizes[layout.deep].sum())
print(json.dumps([count(*question) for question in json.load(sys.stdin)]))
"""


def exact(claim: Claim) -> float | None:
    """What our code gives for a claim, if it needs nothing else from the paper; None: it has no formula here."""
    formula = FORMULAS.get((claim.paper, claim.metric))
    counts = layers("fed2a").get(claim.dataset) if formula else None
    return formula(claim, *counts) if formula and counts else None


def _parameters(claim: Claim, shallow: int, deep: int) -> float:
    return {"shallow": shallow, "deep": deep}[claim.setting]


def _unit_cost(claim: Claim, shallow: int, deep: int) -> float:
    return _parameters(claim, shallow, deep) * BYTES_PER_PARAMETER / MB


def _upload_total(claim: Claim, shallow: int, deep: int) -> float:
    return upload_cost(int(claim.setting.removeprefix("R=")), shallow, deep, 1, 1)


# (paper, metric) -> what follows from the numbers of shallow and deep parameters alone
FORMULAS: dict[tuple[str, str], Callable[[Claim, int, int], float]] = {
    ("fed2a", "parameters"): _parameters,
    ("fed2a", "unit_cost"): _unit_cost,
    ("fed2a", "upload_total"): _upload_total,
}


@cache
def layers(protocol: str) -> dict[str, tuple[int, int]]:
    """Data set -> (shallow, deep) parameters of the model that `protocol` uses."""
    return count_layers({name: [f"protocol={protocol}", f"dataset={name}", "scale=paper"] for name in IMAGES})


def count_layers(keys: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """The same for any keys of the command line, per data set."""
    found = answers(COUNT, [(keys[name], *IMAGES[name]) for name in keys], "the models could not be built")
    return {name: (shallow, deep) for name, (shallow, deep) in zip(keys, found, strict=True)}
