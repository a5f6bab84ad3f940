"""What an engine is handed and cannot be trained on is refused in one sentence, before any address is taken."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch

from algorithms.base import LocalRule
from bench import compiled
from bench.engine.buffers import DEVICE, LINEAR, RULE
from bench.engine.dense import Dense
from bench.engine.eager import Eager
from bench.engine.native import Native
from bench.engine.vmap import Vmap
from bench.errors import UserError
from bench.main import command
from bench.seeding import shuffles
from tests.bench.engine.federations import SIZES, Problem, Ruled

BUILT = not isinstance(compiled.library(), str)
needs_c = pytest.mark.skipif(not BUILT, reason="the C part was not built")
ENGINES = [Eager, Dense, Vmap, *([Native] if BUILT else [])]
UNITS = (6, 5, 3)
SIZE = 6 * 5 + 5 + 5 * 3 + 3


def trained(engine, algo, problem=None, **constants):
    problem = problem or Problem(UNITS, torch.float32)
    return problem.train(engine(problem.module, problem.layout, problem.batches), algo, [3, 0, 5], **constants)


class Says(Ruled):
    """Its rule as it is."""

    def local(self, jobs, w, epoch, fed):
        return self.rule


RULES = {
    "nothing": (None, "returned NoneType, not a LocalRule"),
    "short mask": (LocalRule(mask=torch.tensor([True, False, True])), "mask of local of .* is torch.bool of shape .3."),
    "mask of numbers": (LocalRule(mask=torch.rand(SIZE)), f"torch.float32 of shape .{SIZE}., not torch.bool"),
    "rows of masks": (LocalRule(mask=torch.zeros(1, SIZE, dtype=torch.bool)), f"not torch.bool of shape .{SIZE}."),
    "short drift": (LocalRule(drift=torch.ones(3, 3)), f"not torch.float32 of shape .3, {SIZE}."),
    "one drift": (LocalRule(drift=torch.ones(1, SIZE)), f"shape .1, {SIZE}., not"),
    "half a drift": (LocalRule(drift=torch.ones(3, SIZE).half()), "is torch.float16"),
    "a rate that is a number": (LocalRule(lr=0.1), "The lr of local of .* is float, not None or a tensor of shape .3."),
    "rates of others": (LocalRule(lr=torch.ones(2)), "lr of local .* shape .2."),
    "a column of scales": (LocalRule(scale=torch.ones(3, 1)), "scale of local .* shape .3, 1."),
    "complex prox": (LocalRule(prox=torch.ones(3, dtype=torch.complex64)), "prox of local .* torch.complex64"),
    "two sams": (LocalRule(sam=torch.ones(2)), "sam of local .* not a number"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_does_not_fit_the_models_is_refused_by_every_engine(name, engine):
    rule, sentence = RULES[name]
    with pytest.raises(UserError, match=sentence):
        trained(engine, Says(rule=rule))


@pytest.mark.parametrize("engine", ENGINES)
def test_so_is_one_for_fine_tuning(engine):
    problem = Problem(UNITS, torch.float32)
    made = engine(problem.module, problem.layout, problem.batches)
    with pytest.raises(UserError, match="mask of personal_rule"):
        made.tune(None, problem.w[0], 1, LocalRule(mask=torch.ones(3, dtype=torch.bool)), 1)
    with pytest.raises(UserError, match=r"fine-tune is torch.float16"):
        made.tune(None, problem.w[0].half(), 1, LocalRule(), 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "change", [torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.double, lambda w: w[:, :1], lambda w: w[0]]
)
def test_models_of_another_kind_than_the_networks_are_refused_by_every_engine(change, engine):
    problem = Problem(UNITS, torch.float32)
    made = engine(problem.module, problem.layout, problem.batches)
    w, problem.w = problem.w, _Rows(change, problem.w)
    with pytest.raises(
        UserError, match=f"The w that devices of .* start from is .* not torch.float32 of shape .3, {SIZE}."
    ):
        problem.train(made, Ruled(rule=LocalRule()), [3, 0, 5])
    assert len(w) == len(SIZES)


class _Rows:
    """Models whose rows are taken in another form."""

    def __init__(self, change, w):
        self.change, self.w = change, w

    def __getitem__(self, rows):
        return self.change(self.w[rows])


@needs_c
@pytest.mark.parametrize("label", [-1, 3, 10**6, -(2**63), 2**62])
@pytest.mark.parametrize("needs", [frozenset(), frozenset({"full_gradient"})], ids=["step", "gradient"])
def test_a_label_that_is_no_class_never_reaches_a_step(label, needs):
    problem = Problem(UNITS, torch.float32)
    sample = int(problem.batches.samples[5][0])
    problem.batches.y[sample] = label
    before = problem.w.clone()
    with pytest.raises(UserError, match=f"training sample {sample} has the label {label}: .* from 0 to 2"):
        trained(Native, Ruled(rule=LocalRule(), needs=needs), problem)
    assert torch.equal(problem.w, before)


@needs_c
def test_labels_and_inputs_of_another_kind_are_refused():
    problem = Problem(UNITS, torch.float32)
    problem.batches.y = problem.batches.y + 0.5
    with pytest.raises(UserError, match=r"y is torch.float32 .* not torch.int64"):
        trained(Native, Ruled(rule=LocalRule()), problem)
    problem = Problem(UNITS, torch.float32)
    problem.batches.inputs = lambda x: x.float()[:, :4]
    with pytest.raises(UserError, match=r"x is torch.float32 of shape .*, 4., not .*, 6."):
        trained(Native, Ruled(rule=LocalRule()), problem)


@needs_c
def test_torchs_default_type_is_nothing_to_c():
    plain = trained(Native, Ruled(rule=LocalRule(prox=0.5, sam=0.1)), momentum=0.5)
    problem = Problem(UNITS, torch.float32)
    torch.set_default_dtype(torch.float16)
    try:
        found = trained(Native, Ruled(rule=LocalRule(prox=0.5, sam=0.1)), problem, momentum=0.5)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found["end"], plain["end"])


class Given:
    """A call that is right: two layers, three classes, two devices of 5 and 2 samples, every vector there is."""

    def __init__(self, size=SIZE, numbers=6):
        self.linears, self.devices, self.rule = np.zeros(2, LINEAR), np.zeros(2, DEVICE), np.zeros(1, RULE)
        self.kept = []
        for row, (inner, outer, weight, bias) in zip(self.linears, [(6, 5, 0, 30), (5, 3, 35, 50)], strict=True):
            row["inner"], row["outer"], row["weight"], row["bias"], row["relu"] = inner, outer, weight, bias, 1
            row["inputs"], row["d"] = self.floats(4 * inner), self.floats(4 * outer)
        self.labels = [np.array([0, 1, 2, 1, 0]), np.array([2, 2])]
        for row, y in zip(self.devices, self.labels, strict=True):
            row["samples"], row["y"], row["x"], row["rate"] = len(y), y.ctypes.data, self.floats(numbers * len(y)), 0.1
            for name in ("w", "m", "shift", "last_gradient", "mean_gradient", "epoch"):
                row[name] = self.floats(size)
        rule = {"depth": 2, "batch": 4, "size": size, "numbers": numbers, "sam": 0.1, "momentum": 0.9}
        for name, value in rule.items():
            self.rule[name] = value
        self.rule["linears"] = self.linears.ctypes.data
        for name in ("mask", "gradient", "climbed"):
            self.rule[name] = self.floats(size)

    def floats(self, count):
        self.kept.append(np.full(count, 0.01, dtype=np.float32))
        return self.kept[-1].ctypes.data

    def answer(self, count=2):
        pointers = (ctypes.c_void_p(table.ctypes.data) for table in (self.rule, self.devices))
        why = compiled.library().train(*pointers, ctypes.c_int64(count), 64)
        return why and why.decode()


WRONG = {
    "rule": {
        "cannot be": {"depth": [0, -1, 2**40], "batch": [0, -1, 2**31], "size": [0, -5]},
        "outside the model": {"size": [SIZE - 1]},
        "a first layer with other inputs": {"numbers": [5, 0, 2**40]},
        "without buffers for its gradient": {"gradient": [0], "climbed": [0]},
    },
    "linears": {
        "none or too many": {"inner": [0, -6, 2**31, 2**62], "outer": [0, -3, 2**31]},
        "other inputs than the outputs": {"inner": [4, 6]},
        "outside the model": {"weight": [-1, 39, 2**62], "bias": [51, 2**62], "outer": [4]},
        "a layer without buffers": {"d": [0], "inputs": [0]},
    },
    "devices": {"without a model or samples": {"w": [0], "x": [0], "y": [0], "samples": [-1, 2**31, 2**62]}},
}


@needs_c
def test_c_refuses_every_number_that_would_lead_it_astray():
    given = Given()
    assert given.answer() is None
    assert given.answer(-1) is not None
    for table, faults in WRONG.items():
        for sentence, fields in faults.items():
            for field, values in fields.items():
                for value in values:
                    given = Given()
                    getattr(given, table)[-1][field] = value
                    before = [part.copy() for part in given.kept]
                    assert sentence in (given.answer() or "trained"), (table, field, value)
                    assert all(map(np.array_equal, given.kept, before))
    for label in (-1, 3, 10**6):
        given = Given()
        given.labels[1][1] = label
        assert "a label that is no class" in given.answer()


@needs_c
def test_c_refuses_sums_of_gradients_that_it_has_no_room_for():
    for name in ("m", "last_gradient", "mean_gradient", "epoch"):
        given = Given()
        for field in ("sam", "mask", "gradient"):
            given.rule[field] = 0
        for field in {"m", "last_gradient", "mean_gradient", "epoch"} - {name}:
            given.devices[field] = 0
        assert "gradients have no buffer" in given.answer()


@needs_c
@pytest.mark.parametrize(
    "held, begins, lengths, times, room, sentence",
    [
        (4, [0, 2], [2, 2], [1, 2], 6, None),
        (4, [0, 2], [2, 3], [1, 1], 5, "not there"),
        (4, [-1, 2], [2, 2], [1, 1], 4, "not there"),
        (4, [0, 2**62], [2, 2], [1, 1], 4, "not there"),
        (4, [0, 2], [2, -2], [1, 1], 4, "than 32 bits"),
        (2**40, [0, 0], [2, 2**32], [1, 1], 2**40, "than 32 bits"),
        (4, [0, 2], [2, 2], [1, -1], 4, "too little room"),
        (4, [0, 2], [2, 2], [1, 2], 5, "too little room"),
        (4, [0, 2], [2, 2], [2**62, 2**62], 4, "too little room"),
    ],
)
def test_the_shuffle_refuses_what_lies_outside_its_numbers(held, begins, lengths, times, room, sentence):
    seeds, numbers, out = np.ones((2, 4), np.uint64), np.arange(4), np.full(6, -7)
    tables = [np.array(column) for column in (begins, lengths, times)]
    size, at = ctypes.c_int64, [ctypes.c_void_p(array.ctypes.data) for array in (seeds, numbers, *tables, out)]
    why = compiled.library().shuffles(size(2), at[0], at[1], size(held), *at[2:], size(room))
    if sentence is None:
        assert why is None and sorted(out.tolist()) == [0, 1, 2, 2, 3, 3]
    else:
        assert sentence in why.decode() and (out == -7).all()


@needs_c
def test_the_shuffle_refuses_numbers_of_another_type_and_lists_of_other_lengths():
    ids, own = [(0, 0), (1, 0)], [np.arange(3), np.arange(4)]
    for numbers, times in ([own[0].astype(np.int32), own[1].astype(np.int32)], [1, 1]), (own[:1], [1]):
        with pytest.raises(UserError, match=r"The C part takes .*int64"):
            shuffles(0, "batches", ids, numbers, times)


METHOD = """
import torch
from dataclasses import dataclass
from algorithms.base import Algorithm, LocalRule

@dataclass(frozen=True, kw_only=True)
class Mine(Algorithm):
    \"\"\"Mine.\"\"\"

    def {hook}
"""
HOOKS = {
    "local(self, jobs, w, epoch, fed): return LocalRule(mask=torch.tensor([True, False, True]))": "mask",
    "aggregate(self, server, updates, fed): return {'w': server['w'].half()}": "float16",
    "aggregate(self, server, updates, fed): return {'w': server['w'].bfloat16()}": "bfloat16",
    "aggregate(self, server, updates, fed): return {'w': server['w'][:1]}": "shape",
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_method_of_ones_own_is_told_what_it_handed_over(hook, capsys):
    Path("mine.py").write_text(METHOD.format(hook=hook))
    assert command(["algo=./mine.py", "dataset=digits", "rounds=3", "engine.workers=1", "logger=none"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: ") and HOOKS[hook] in said and "mine.py" in said and "smaller lr" not in said
