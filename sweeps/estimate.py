"""How long a sweep will take here, without training: samples to be seen, times what a sample of each model costs.

An estimate, good to a factor of two or three: the costs were measured once on one core of a 2026 server, with the
engine that auto takes where the step costs next to nothing beside its samples and with autograd for the others, and are
scaled by how fast this machine multiplies matrices.
"""

from __future__ import annotations

import math
import tempfile
import time
from functools import cache
from typing import Any

from bench.prepare import compose, registry
from bench.simulation import schedule
from sweeps.plan import PlannedRun, Sweep, pairs

# milliseconds of CPU for one training step, and for each sample in it; width 1, the input size of the papers
COSTS = {
    **{"linear": (0.005, 0.001), "mlp": (0.005, 0.016), "mnist_cnn": (0, 0.78), "lenet5": (0, 0.16)},
    **{"lenet5_3x3": (1.2, 0.12), "cifar10_cnn": (3.4, 0.9), "fed2a_cnn": (0, 3.7), "resnet20": (7.7, 3.8)},
    **{"vgg11": (36, 11), "alexnet": (39, 12), "resnet18": (39, 2.7), "googlenet": (54, 2.7)},
    **{"densenet121": (85, 6.3), "vgg16": (0, 500)},
}
PRODUCT = 2.8  # milliseconds of a 512 x 512 product on the machine of COSTS
PER_RUN, PER_ROUND, PER_UPLOAD = 5.0, 0.01, 0.002  # seconds: starting and loading; the loop
COMPOSED = ("protocol", "dataset", "model", "scale", "local_unit", "schedule")  # beside numbers, what a cost depends on


def hours(sweep: Sweep, speed: float) -> float:
    """Of one core."""
    runs = {run.overrides: run for run in sweep.runs}.values()
    return sum(seconds(run) for run in runs) * len(sweep.seeds) * speed / 3600


def seconds(run: PlannedRun) -> float:
    """One run on the machine of COSTS; NaN where nobody timed its model, or its data set does not say its size."""
    given = pairs(run.overrides)
    config = _config(tuple(w for w in run.overrides if w.partition("=")[0].partition(".")[0] in COMPOSED))
    config = config | {key: int(text) for key, text in given.items() if text.isdigit()}
    model, dataset = config["model"], registry.create(config["dataset"])
    if model["name"] not in COSTS or dataset.size is None:
        return math.nan
    step, sample = (model.get("width", 1.0) ** 2 * cost / 1000 for cost in COSTS[model["name"]])
    sample *= ((config["dataset"].get("resize") or 32) / 32) ** 2
    train, test = dataset.size
    own = math.ceil(train / config["clients"])  # of a device
    batch, steps = min(config["batch_size"], own), config["epochs"]
    if config["local_unit"] != "step":
        steps *= math.ceil(own / batch)
    uploads = schedule.check(config, registry.classes("algo")[given["algo"]]()).arrivals_per_round or 0
    training = uploads * (steps * (step + batch * sample) + PER_UPLOAD)
    evaluation = test * sample / 3 / config["eval_every"]
    return PER_RUN + float(config["rounds"] * (training + evaluation + PER_ROUND))


@cache
def _config(words: tuple[str, ...]) -> dict[str, Any]:
    """Few of a sweep's runs differ in these words: composing each of its runs would take minutes."""
    return compose.config([*words, f"out={tempfile.gettempdir()}"])  # nothing is written, wherever this is asked


def speed() -> float:
    """How much slower this machine is than that of COSTS, from a twentieth of a second of matrix products."""
    import numpy as np
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

    a = np.ones((512, 512), np.float32)
    times = []
    with threadpool_limits(1):  # on a busy machine a second thread spends its time waiting
        for _ in range(6):
            began = time.process_time()
            for _ in range(3):
                a @ a
            times.append((time.process_time() - began) / 3)
    return 1000 * min(times) / PRODUCT
