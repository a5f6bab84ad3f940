"""Convolutions in C refuse every number that would lead them out of their buffers."""

import ctypes

import numpy as np

from bench import compiled
from bench.engine.buffers import STAGE
from tests.bench.engine.test_border import SIZE, Given
from tests.bench.engine.test_native_maps import pytestmark  # noqa: F401  # where there is no C there is nothing to try


class GivenMaps(Given):
    """The same after a convolution of 2 x 4 x 3 to 3 x 3 x 2 and a pooling of that to 3 x 1 x 2."""

    def __init__(self):
        super().__init__(SIZE + 27, 24)
        self.stages = np.zeros(2, STAGE)
        rows = {
            **dict.fromkeys(("down", "across"), (2, 1)),
            **dict.fromkeys(("step_down", "step_across", "pool_across", "pool_step_down", "pool_step_across"), (1, 1)),
            **{"channels": (2, 3), "height": (4, 3), "width": (3, 2), "outer": (3, 3), "rows": (3, 3)},
            **{"columns": (2, 2), "high": (3, 1), "wide": (2, 2), "pool_down": (1, 3), "relu": (1, 1)},
            **{"weight": (SIZE, -1), "bias": (SIZE + 24, -1)},
        }
        for name, values in rows.items():
            self.stages[name] = values
        for row, count in zip(self.stages, (18, 6), strict=True):
            row["y"], row["d"] = self.floats(16 * count), self.floats(16 * count)
        self.stages[1]["unpooled"], self.stages[1]["first"] = self.floats(16 * 18), self.floats(16 * 6)
        self.rule["maps"], self.rule["stages"] = self.stages.ctypes.data, 2
        for name, count in {"lanes": 16 * 24, "room": 8 * 16 * 6, "back": 4 * 6}.items():
            self.rule[name] = self.floats(count)


HUGE = (2**31, 2**62)
WRONG = {
    "rule": {
        "cannot be": {"stages": [-1, 2**40], "maps": [0]},
        "maps without buffers": {"lanes": [0], "room": [0], "back": [0]},
        "a map with other inputs": {"numbers": [23, 0, 2**40]},
        "a first layer with other inputs": {"stages": [0, 1]},
    },
    "first": {
        "without pixels or with too many": {
            name: [0, -1, *HUGE] for name in ("channels", "height", "outer", "rows", "down", "across", "high", "wide")
        },
        "a map with other inputs": {"channels": [1], "height": [5], "width": [2]},
        "stride or padding": {"step_down": [0, -1, *HUGE], "step_across": [0], "up": [-1, *HUGE], "left": [-1]},
        "outside the model": {"weight": [SIZE + 4, 2**62], "bias": [SIZE + 25, 2**62], "down": [3]},
        "that changes without a pooling": {"high": [2], "wide": [1]},
        "a map without buffers": {"y": [0], "d": [0]},
    },
    "second": {
        "a map with other inputs": {"channels": [1, 4], "height": [2, 4], "width": [1]},
        "that changes without a convolution": {"outer": [2], "rows": [4], "columns": [1]},
        "a pooling of more": {"pool_down": [0, 4, *HUGE], "pool_across": [2], "pool_step_down": [0, -3], "high": [2]},
        "a map without buffers": {"unpooled": [0], "first": [0], "y": [0]},
        "a first layer with other inputs": {"wide": [1]},
    },
}


def test_c_answers_only_what_it_has_room_for():
    given, library = GivenMaps(), compiled.library()
    right = [given.rule.ctypes.data, given.devices["w"][0], given.devices["x"][0], 5, given.floats(15)]
    for place, value in [(None, 0), (1, 0), (2, 0), (3, -1), (3, 2**31), (4, 0)]:
        numbers = [value if k == place else number for k, number in enumerate(right)]
        why = library.answer(*map(ctypes.c_int64, map(int, numbers)), 64)
        assert (why is None) == (place is None), (place, value)
    given.rule["depth"] = 0
    assert b"cannot be" in library.answer(*map(ctypes.c_int64, map(int, right)), 64)


def test_c_refuses_every_number_that_would_lead_it_astray():
    assert GivenMaps().answer() is None
    for table, faults in WRONG.items():
        for sentence, fields in faults.items():
            for field, values in fields.items():
                for value in values:
                    given = GivenMaps()
                    row = given.rule[0] if table == "rule" else given.stages[int(table == "second")]
                    row[field] = value
                    before = [part.copy() for part in given.kept]
                    assert sentence in (given.answer() or "trained"), (table, field, value)
                    assert all(map(np.array_equal, given.kept, before))
