"""Numbers that this repository's own models give, without any other number of a paper."""

from __future__ import annotations

from functools import cache

from leaderboards.apart import answers

# (channels, height, width), classes
IMAGES = {"fmnist": ((1, 28, 28), 10), "cifar10": ((3, 32, 32), 10), "gtsrb": ((3, 32, 32), 43)}


@cache
def layers(protocol: str) -> dict[str, tuple[int, int]]:
    """Data set -> (shallow, deep) parameters of the model that `protocol` uses."""
    questions = [([f"protocol={protocol}", f"dataset={name}", "scale=paper"], *IMAGES[name]) for name in IMAGES]
    found = answers("layers", questions, "the models could not be built")
    return {name: (shallow, deep) for name, (shallow, deep) in zip(IMAGES, found, strict=True)}
