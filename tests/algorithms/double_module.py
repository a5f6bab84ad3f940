"""The network that digits has by default, in float64: as a user would bring it, so that the whole run is in double."""

from bench.learning.module import LocalModule
from bench.models.dense import mlp


class Double(LocalModule):
    def __init__(self, shape, classes):
        super().__init__(mlp({"hidden": [64], "width": 1.0}, shape, classes))
        self.double()
