"""A network for digits whose first layer counts as shallow."""

from bench.learning.module import LocalModule
from bench.models.dense import mlp


class PartlyDeep(LocalModule):
    deep = ("net.3", "net.5")

    def __init__(self, shape, classes):
        super().__init__(mlp({"hidden": [12, 8], "width": 1.0}, shape, classes))
