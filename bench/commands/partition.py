"""How a data set is dealt to the clients: labels per client as a heat map, and how far each is from the whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Parser
from bench.output.pictures import picture, pyplot, save
from bench.prepare import compose, plugins
from bench.prepare.resolve import call
from bench.seeding import stream

Matrix = NDArray[Any]
TENTHS = 10


def main(argv: Sequence[str]) -> int:
    parser = Parser("python -m bench partition", description=__doc__)
    parser.add_argument("keys", nargs="*", help="as for bench.py: dataset=cifar100 protocol=fedagg partition.alpha=0.6")
    parser.add_argument("--png", type=picture, help="the file to write; partition-<data set>-<protocol>.png by default")
    options = parser.parse_args(argv)
    config = compose.config(options.keys)
    loaded = plugins.load(config["dataset"], config["task"])
    rng, labels = stream(config["seed"], "partition"), _classes(loaded.train.y.numpy())
    parts, remark = plugins.deal(config["partition"], loaded.train.y, config["clients"], rng)
    classes = max(loaded.classes, labels.max() + 1)
    counts = np.array([np.bincount(labels[part], minlength=classes) for part in parts])
    distance = wasserstein(counts, np.bincount(labels, minlength=classes))
    target = options.png or Path(f"partition-{config['dataset']['name']}-{config['protocol']}.png")
    title = f"{config['dataset']['name']} ({loaded.source.partition(':')[0]}), {call(config['partition'])}"
    _draw(counts, distance, title, target)
    sizes, held = counts.sum(axis=1), (counts > 0).sum(axis=1)
    print(f"data       {title}")
    print(f"clients    {len(parts)}, {sizes.min()}-{sizes.max()} samples in {held.min()}-{held.max()} classes")
    print(f"distance   {distance.mean():.3f} labels on average, {distance.min():.3f} to {distance.max():.3f}")
    if remark:
        print(f"note       {remark}")
    print(f"plot       {target}")
    return 0


def _classes(labels: Matrix) -> Matrix:
    """Real numbers by the tenth of them that they are in."""
    if labels.dtype.kind != "f":
        return labels
    return np.searchsorted(np.quantile(labels, np.arange(1, TENTHS) / TENTHS), labels)


def wasserstein(counts: Matrix, whole: Matrix) -> Matrix:
    """[clients]: the Wasserstein-1 distance between each client's labels and all labels, which are taken as numbers:
    the mean number of labels by which samples would have to be moved."""
    mine = np.cumsum(counts / counts.sum(axis=1, keepdims=True), axis=1)
    everyone = np.cumsum(whole / whole.sum())
    distance: Matrix = np.abs(mine - everyone).sum(axis=1)
    return distance


def _draw(counts: Matrix, distance: Matrix, title: str, target: Path) -> None:
    from matplotlib.ticker import MaxNLocator

    plt = pyplot()
    figure, (heat, bars) = plt.subplots(2, 1, figsize=(9, 6.5), height_ratios=[3, 1], sharex=True, layout="constrained")
    image = heat.imshow(counts.T, aspect="auto", interpolation="nearest", cmap="Blues", origin="lower")
    figure.colorbar(image, ax=heat, label="samples", pad=0.01)
    heat.set(ylabel="label", title=title)
    bars.bar(np.arange(len(distance)), distance, width=1.0, color="tab:blue", edgecolor="white", linewidth=0.3)
    bars.axhline(distance.mean(), color="black", linewidth=0.8, linestyle="--")
    bars.set(xlabel="client", ylabel="Wasserstein distance\n(labels)", xlim=(-0.5, len(distance) - 0.5))
    bars.xaxis.set_major_locator(MaxNLocator(integer=True))
    save(figure, target)
