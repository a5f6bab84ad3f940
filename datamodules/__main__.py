"""python -m datamodules: the data sets, and where they are on this machine."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module

import datamodules
from datamodules.base import Dataset


def data_sets() -> list[type[Dataset]]:
    for info in pkgutil.iter_modules(datamodules.__path__, "datamodules."):
        name = info.name.rpartition(".")[2]
        if not name.startswith("_") and name != "module":  # module.py imports Lightning
            import_module(info.name)

    def below(cls: type[Dataset]) -> list[type[Dataset]]:
        return [c for sub in cls.__subclasses__() for c in (sub, *below(sub))]

    return sorted((c for c in below(Dataset) if not c.__name__.startswith("_")), key=lambda c: c.__name__.lower())


def show_list() -> None:
    """what there is, how large, and where it comes from here"""
    for cls in data_sets():
        dataset = cls()
        samples = "{:,} + {:,}".format(*cls.size) if cls.size else "?"
        where = dataset.available() or f"not here: {dataset.how_to_get()}"
        print(f"{cls.__name__.lower():10} {cls.title}")
        print(f"{'':10} {samples} samples, {cls.classes or '?'} classes; {where}")


VERBS: dict[str, Callable[[], None]] = {"list": show_list}


def main(args: list[str]) -> int:
    if args in ([], ["-h"], ["--help"]):
        print("python -m datamodules VERB")
        for verb, run in VERBS.items():
            print(f"  {verb:8} {run.__doc__}")
        return 0
    if len(args) > 1 or args[0] not in VERBS:
        print(f"There is no `{' '.join(args)}` here: try {' or '.join(VERBS)}.", file=sys.stderr)
        return 2
    VERBS[args[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
