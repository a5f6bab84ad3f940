"""How a data set is dealt to the clients: labels per client as a heat map, and how far each client is from all of them.
Labels: the share of its samples that would need another label. Features: how far their mean lies from that of their
classes, in root mean square distances of one sample. By chance: what is expected where samples are drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.commands import skew
from bench.commands.skew import Distance, Matrix
from bench.errors import Parser
from bench.output.pictures import picture, pyplot, save
from bench.prepare import compose, plugins
from bench.prepare.resolve import call
from bench.seeding import stream
from datamodules.samples import Samples

TENTHS = 10


def main(argv: Sequence[str]) -> int:
    parser = Parser("python -m bench partition", description=__doc__)
    parser.add_argument("keys", nargs="*", help="as for bench.py: dataset=cifar100 protocol=fedagg partition.alpha=0.6")
    parser.add_argument("--png", type=picture, help="the file to write; partition-<data set>-<protocol>.png by default")
    options = parser.parse_args(argv)
    config = compose.config(options.keys)
    loaded = plugins.load(config["dataset"], config["task"])
    labels = _classes(loaded.train.y.numpy())
    classes = max(loaded.classes, labels.max() + 1)
    parts, remark = plugins.deal(config, loaded, stream(config["seed"], "partition"))
    counts = np.array([np.bincount(labels[part], minlength=classes) for part in parts])
    distances = {"labels": skew.of_labels(counts, np.bincount(labels, minlength=classes))}
    if features := skew.of_features(Samples.of(loaded, config["dataset"]["name"]), parts):
        distances["features"] = features
    target = options.png or Path(f"partition-{config['dataset']['name']}-{config['protocol']}.png")
    title = f"{config['dataset']['name']} ({loaded.source.partition(':')[0]}), {call(config['partition'])}"
    _draw(counts, distances, title, target)
    sizes, held = counts.sum(axis=1), (counts > 0).sum(axis=1)
    print(f"data       {title}")
    print(f"clients    {len(parts)}, {sizes.min()}-{sizes.max()} samples in {held.min()}-{held.max()} classes")
    for name, distance in distances.items():
        print(f"{name:10} {distance}")
    if remark:
        print(f"note       {remark}")
    print(f"plot       {target}")
    return 0


def _classes(labels: Matrix) -> Matrix:
    """Real numbers by the tenth of them that they are in."""
    if labels.dtype.kind != "f":
        return labels
    return np.searchsorted(np.quantile(labels, np.arange(1, TENTHS) / TENTHS), labels)


def _draw(counts: Matrix, bars: Mapping[str, Distance], title: str, target: Path) -> None:
    """Under the map of labels a row of bars for each distance, in which a dotted line is what chance would give."""
    from matplotlib.ticker import MaxNLocator

    plt, clients = pyplot(), np.arange(len(counts))
    rows, size = [3, *[1] * len(bars)], (9, 5 + 1.5 * len(bars))
    figure, (heat, *below) = plt.subplots(
        len(rows), 1, figsize=size, height_ratios=rows, sharex=True, layout="constrained"
    )
    image = heat.imshow(counts.T, aspect="auto", interpolation="nearest", cmap="Blues", origin="lower", vmin=0)
    figure.colorbar(image, ax=heat, label="samples", pad=0.01)
    heat.set(ylabel="label", title=title, xlim=(-0.5, len(counts) - 0.5))
    for axes, (name, distance) in zip(below, bars.items(), strict=True):
        axes.bar(clients, distance.found, width=1.0, color="tab:blue", edgecolor="white", linewidth=0.3)
        axes.axhline(distance.found.mean(), color="black", linewidth=0.8, linestyle="--")
        axes.step(clients, distance.chance, where="mid", color="black", linewidth=0.8, linestyle=":")
        axes.set(ylabel=f"distance\n({name})")
    below[-1].set(xlabel="client")
    below[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    save(figure, target)
