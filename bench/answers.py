"""What a program without torch asks of the benchmark: python -P -m bench.answers configs|layers.

A list of questions comes as JSON on standard input, a list of answers leaves as JSON in the last line printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bench.prepare import compose


def layers(words: Sequence[str], image: Sequence[int], classes: int) -> tuple[int, int]:
    """How many parameters of a command line's model are shallow, and how many deep."""
    import numpy as np

    from bench.learning.flat import Layout
    from bench.models import build

    layout = Layout(build(compose.config(list(words))["model"], tuple(image), classes, np.random.default_rng(0)))
    return int(layout.sizes[~layout.deep].sum()), int(layout.sizes[layout.deep].sum())


KINDS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "configs": compose.configs,
    "layers": lambda questions: [layers(*question) for question in questions],
}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]](json.load(sys.stdin))))
