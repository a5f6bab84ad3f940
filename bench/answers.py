"""What a program without torch asks of the benchmark: python -P -m bench.answers configs|layers.

A list of questions comes as JSON on standard input, a list of answers leaves as JSON in the last line printed.
`configs`: the resolved config of each command line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.prepare import compose


def layers(questions: Iterable[tuple[Sequence[str], Sequence[int], int]]) -> list[tuple[int, int]]:
    """Of (command line, shape of an image, classes): how many of its model's parameters are shallow, how many deep."""
    import numpy as np

    from bench.learning.flat import Layout
    from bench.models import build

    found = []
    for words, image, classes in questions:
        layout = Layout(build(compose.config(words)["model"], tuple(image), classes, np.random.default_rng(0)))
        found.append((int(layout.sizes[~layout.deep].sum()), int(layout.sizes[layout.deep].sum())))
    return found


KINDS: dict[str, Callable[[Any], list[Any]]] = {"configs": compose.configs, "layers": layers}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]](json.load(sys.stdin))))
