"""The engine in C takes the steps that autograd takes, to the same bits wherever a device's numbers lie."""

import os
import re

import numpy as np
import pytest
import torch

from algorithms.base import LocalRule
from bench import compiled
from bench.engine import buffers, native
from bench.engine.dense import Dense
from bench.engine.eager import Eager
from bench.engine.native import Native
from bench.prepare.registry import classes
from tests.bench.engine.federations import NEEDS, RULES, SIZES, Problem, Ruled, noisy, path, rules, same

MISSING = found if isinstance(found := compiled.library(), str) else None
pytestmark = pytest.mark.skipif(
    MISSING is not None and "FEDBENCH_COMPILER" not in os.environ, reason=f"engine=native: {MISSING}"
)
SHAPES = [(12, 9, 7, 3), (64, 32, 10), (5, 4), (4, 1, 3), (33, 47, 18, 61, 5), (100, 17)]


def parts(problem):
    return problem.module, problem.layout, problem.batches


@pytest.mark.parametrize("name", sorted(classes("algo")))
def test_fifty_steps_of_every_algorithm_stay_within_5e_6_of_autograds(name):
    for ours, theirs in zip(path(name, torch.float32, Native), path(name, torch.float32, Eager), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-6)


@pytest.mark.parametrize("needs", [frozenset(), NEEDS], ids=["no need", "every need"])
@pytest.mark.parametrize("rule", RULES)
def test_every_term_and_need_is_that_of_double_precision(rule, needs):
    """Against the chain in float64, which is autograd's to 1e-12 (test_dense.py)."""
    for units in SHAPES:
        found = []
        for engine, dtype in ((Native, torch.float32), (Dense, torch.float64)):
            problem = Problem(units, dtype)
            local, constants = rules(problem)[rule]
            algo = Ruled(rule=local, needs=needs)
            trained = problem.train(engine(*parts(problem)), algo, list(range(len(SIZES))), **constants)
            found.append({name: value.double() for name, value in trained.items()})
        assert found[0].keys() >= needs
        same(*found, 5e-5)


@pytest.mark.parametrize(
    "keys", [{"augment": noisy}, {"local_unit": "step"}, {"bias": False}], ids=["augmented", "by step", "no bias"]
)
def test_data_and_models_of_every_kind_are_trained_as_by_autograd(keys):
    for units in SHAPES:
        problem = Problem(units, torch.float32, **keys)
        algo = Ruled(rule=LocalRule(prox=0.2))
        same(*(problem.train(engine(*parts(problem)), algo, [3, 0, 5, 2]) for engine in (Native, Eager)), 3e-5)


@pytest.mark.parametrize("together", [native.TOGETHER, 700, 1])
@pytest.mark.parametrize("rule", ["plain", "prox, drift, rates", "all"])
@pytest.mark.parametrize("keys", [{}, {"augment": noisy}], ids=["plain", "augmented"])
def test_a_devices_result_depends_neither_on_its_company_nor_on_the_size_of_a_call_to_the_bit(
    keys, rule, together, monkeypatch
):
    problem = Problem((61, 47, 33, 5), torch.float32, **keys)
    local, constants = rules(problem)[rule]
    algo = Ruled(rule=local, needs=NEEDS if rule == "all" else frozenset())

    def train(devices):
        return problem.train(Native(*parts(problem)), algo, devices, **constants)

    everyone = train(list(range(len(SIZES))))
    monkeypatch.setattr(native, "TOGETHER", together)
    for devices in ([0], [1], [6], [0, 1, 2], [3, 4, 5], [4, 6, 0, 2, 5, 1, 3]):
        for name, value in train(devices).items():
            assert torch.equal(value, everyone[name][devices]), name


@pytest.mark.parametrize("rule", ["plain", "prox, drift, rates", "all"])
def test_processors_with_shorter_vectors_take_the_same_steps(rule, monkeypatch):
    """To the bit where they have fused products, as all with AVX2 do."""
    for units in SHAPES:
        problem = Problem(units, torch.float32)
        local, constants = rules(problem)[rule]
        found = {}
        for longest in (64, 32, 16):
            monkeypatch.setattr(native, "LONGEST", longest)
            found[longest] = problem.train(Native(*parts(problem)), Ruled(rule=local), [3, 0, 5, 2], **constants)
        same(found[32], found[64], 0)
        same(found[16], found[64], 3e-5)


def test_what_is_not_a_number_is_not_hidden_by_a_relu():
    problem = Problem((12, 9, 7, 3), torch.float32)
    problem.w[2, 5] = float("nan")
    found = problem.train(Native(*parts(problem)), Ruled(rule=LocalRule()), [1, 2])
    assert found["loss"].isnan().tolist() == [False, True]
    assert found["end"].isnan().any(1).tolist() == [False, True]


def test_numbers_that_overflow_give_autograds_infinities_and_not_a_crash():
    problem = Problem((12, 9, 7, 3), torch.float32)
    problem.w[0] *= 1e30
    ours, theirs = (problem.train(engine(*parts(problem)), Ruled(rule=LocalRule()), [0]) for engine in (Native, Eager))
    assert not ours["loss"].isfinite().any()
    assert not theirs["loss"].isfinite().any()


def test_a_model_of_another_type_or_kind_is_refused_with_the_reason():
    double, single = (Problem((12, 9, 3), dtype) for dtype in (torch.float64, torch.float32))
    assert "torch.float64 on cpu" in native.unfit(double.module, double.batches)
    assert native.unfit(single.module, single.batches) is None


TABLES = {"Linear": buffers.LINEAR, "Stage": buffers.STAGE, "Device": buffers.DEVICE, "Rule": buffers.RULE}


def structures():
    """By name, the fields of each structure that is handed over and their types in numpy; a pointer is a number."""
    text = "".join((compiled.SOURCES / name).read_text() for name in ("dense.c", "geometry.h"))
    source = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", source, re.DOTALL):
        if name not in TABLES:
            continue
        found[name] = []
        for line in body.split(";")[:-1]:
            kind, fields = re.fullmatch(r"\s*(?:const )?(\w+) (.*)", line).groups()
            numbers = {"int64_t": np.int64, "double": np.float64}
            for field in fields.split(", "):
                found[name].append((field.lstrip("*"), np.int64 if field.startswith("*") else numbers[kind]))
    return found


def test_the_tables_are_the_c_structures_field_by_field():
    assert {name: np.dtype(fields) for name, fields in structures().items()} == TABLES
