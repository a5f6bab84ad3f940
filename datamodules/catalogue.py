"""The data sets of this folder."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import datamodules
from datamodules.base import Dataset


def data_sets() -> dict[str, type[Dataset]]:
    """Each by its name."""
    for info in pkgutil.iter_modules(datamodules.__path__, "datamodules."):
        # module.py imports Lightning
        if not info.name.startswith(("datamodules._", "datamodules.module")):
            import_module(info.name)

    def below(cls: type[Dataset]) -> list[type[Dataset]]:
        return [c for sub in cls.__subclasses__() for c in (sub, *below(sub))]

    mine = [c for c in below(Dataset) if c.__module__.startswith("datamodules.") and not c.__name__.startswith("_")]
    return {c.__name__.lower(): c for c in sorted(mine, key=lambda c: c.__name__.lower())}
