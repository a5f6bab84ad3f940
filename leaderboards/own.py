"""Numbers that this repository's own models give, without any other number of a paper."""

from __future__ import annotations

from functools import cache

from leaderboards.apart import answers

# (channels, height, width), classes
IMAGES = {"fmnist": ((1, 28, 28), 10), "cifar10": ((3, 32, 32), 10), "gtsrb": ((3, 32, 32), 43)}


@cache
def layers(protocol: str) -> dict[str, tuple[int, int]]:
    """Data set -> (shallow, deep) parameters of the model that `protocol` uses."""
    return count_layers({name: [f"protocol={protocol}", f"dataset={name}", "scale=paper"] for name in IMAGES})


def count_layers(keys: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """The same for any keys of the command line, per data set."""
    found = answers("layers", [(keys[name], *IMAGES[name]) for name in keys], "the models could not be built")
    return {name: (shallow, deep) for name, (shallow, deep) in zip(keys, found, strict=True)}
