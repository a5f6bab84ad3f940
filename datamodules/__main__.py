"""python -m datamodules: the data sets, where they are on this machine, and how to get them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from datamodules.base import DataError
from datamodules.catalogue import data_sets


def show_list(names: Sequence[str]) -> int:
    """what there is, how large, and where it comes from here"""
    for name, cls in data_sets().items():
        if names and name not in names:
            continue
        print(f"{name:10} {cls.title}")
        for dataset in cls.variants():
            print(f"{'':10} {dataset.summary()}; {dataset.available() or f'not here: {dataset.how_to_get()}'}")
    return 0


def fetch(names: Sequence[str]) -> int:
    """get the data sets named, for later runs: fetch mnist cifar10"""
    if not names:
        return _refuse(f"Name the data sets to fetch: {' '.join(data_sets())}.")
    code = 0
    for name in names:
        try:
            print(f"{name}: {data_sets()[name]().fetch()}; next: python bench.py dataset={name}", flush=True)
        except DataError as error:  # the others may work
            code = _refuse(str(error))
    return code


VERBS: dict[str, Callable[[Sequence[str]], int]] = {"list": show_list, "fetch": fetch}


def main(args: list[str]) -> int:
    if not args or {"-h", "--help"} & set(args):
        print("python -m datamodules VERB [data sets]")
        for verb, run in VERBS.items():
            print(f"  {verb:8} {run.__doc__}")
        print("A run on one of them: python bench.py dataset=NAME.")
        return 0
    if args[0] not in VERBS:
        return _refuse(f"There is no {_quoted(args[0])} here: try {' or '.join(VERBS)}.")
    names = [name.lower() for name in args[1:]]
    if unknown := [name for name in names if name not in data_sets()]:
        near = get_close_matches(unknown[0][:100], data_sets(), n=1)
        return _refuse(f"There is no data set {_quoted(unknown[0])}: try {' or '.join(near or data_sets())}.")
    return VERBS[args[0]](names)


def _quoted(word: str) -> str:
    return f"`{word if len(word) <= 100 else f'{word[:50]}...'}`" if word.isprintable() else ascii(word[:50])


def _refuse(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr, flush=True)
    return 2


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # `| head`: nobody reads any more, so what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)
