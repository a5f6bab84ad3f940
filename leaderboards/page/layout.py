"""The papers' tables, laid out as in the papers: which row and which column a claim stands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leaderboards.ledger import Claim
from leaderboards.verdict import Verdict

Labels = tuple[str, ...]
METHODS = {
    **{"fedlga": "FedLGA", "fedavg": "FedAvg", "fedprox": "FedProx", "fednova": "FedNova", "scaffold": "Scaffold"},
    **{"feddyn": "FedDyn", "fedcm": "FedCM", "mimelite": "MimeLite", "fedsam": "FedSAM", "fedadam": "FedAdam"},
    **{"fedadagrad": "FedAdagrad", "fedyogi": "FedYogi", "fedbabu": "FedBABU", "fedgh": "FedGH", "fedagg": "FedAgg"},
    **{"fedasync": "FedAsync", "fed2a": "Fed2A", "fedlc": "FedLC", "sc_fedlc": "SC-FedLC", "fedlc_t": "FedLC-T"},
    **{"afo": "AFO", "ce_afl": "CE-AFL", "rce": "RCE", "tvw-exp": "TVW-exp", "tvw-inv": "TVW-inv"},
    **{"tvw-log": "TVW-log", "-": "all methods"},
}
DATASETS = {
    **{"fmnist": "FMNIST", "mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "gtsrb": "GTSRB"},
    **{"emnist_letters": "EMNIST-L", "emnist_byclass": "EMNIST", "image100": "IMAGE-100", "all": "all data sets"},
}
METRICS = {
    "seconds_per_round": "s a round",
    "seconds_to_target": "s to target",
    "virtual_seconds_to_target": "s to target",
    "rounds_to_target": "rounds to target",
    "upload_to_target": "GB to target",
    "traffic_to_target": "GB to target",
    "final_accuracy": "accuracy",
    "best_accuracy": "best accuracy",
    "fedlga_round_speedup_over_method": "FedLGA's speed-up",
    "fedlga_best_accuracy_gain_over_method": "FedLGA's gain, best accuracy",
}


@dataclass(frozen=True)
class Layout:
    """How claims become rows and columns."""

    row: Callable[[Claim], Labels]
    column: Callable[[Claim], Labels]
    heads: Labels  # above the labels of the rows
    order: Labels = ()  # of the columns, where not every row has them all


@dataclass(frozen=True)
class Table:
    """One table of a paper, filled."""

    where: str
    heads: Labels
    columns: tuple[Labels, ...]
    rows: tuple[tuple[Labels, tuple[Verdict | None, ...]], ...]


def method(claim: Claim) -> str:
    return " vs ".join(named(part) for part in claim.method.split(" vs "))


def named(name: str) -> str:
    """A method as its paper writes it."""
    return METHODS.get(name, name.upper() if name.startswith("plu") else name)


def dataset(claim: Claim) -> str:
    return DATASETS.get(claim.dataset, claim.dataset)


def metric(claim: Claim) -> str:
    return METRICS.get(claim.metric, claim.metric.replace("_", " "))


def part(claim: Claim, key: str) -> str:
    """The value of a key in the setting."""
    return dict(word.split("=", 1) for word in claim.setting.split(";") if "=" in word).get(key, "")


def _setting(claim: Claim) -> str:
    return claim.setting.replace(";", ", ")


FEDAGG = Layout(
    lambda c: (f"{dataset(c)} + {part(c, 'model')}", part(c, "dist")),
    lambda c: (method(c), part(c, "participation")),
    ("Data and model", "Distribution"),
    ("FedAvg", "FedAdam", "FedAdagrad", "FedYogi", "FedProx", "FedDyn", "FedBABU", "FedGH", "FedAgg"),
)
GENERAL = Layout(lambda c: (method(c), _setting(c)), lambda c: (dataset(c), metric(c)), ("Method", "Setting"))
LAYOUTS: dict[tuple[str, str], Layout] = {
    ("fedlga", "Table V"): Layout(lambda c: (method(c),), lambda c: (dataset(c), metric(c)), ("Method",)),
    ("fedlga", "Table VI"): Layout(
        lambda c: (method(c), part(c, "tau_max") if c.method == "fedlga" else "–"),
        lambda c: (dataset(c),),
        ("Method", "τ max"),
    ),
    ("fed2a", "Table 3"): Layout(lambda c: (f"{c.setting} layers",), lambda c: (dataset(c), metric(c)), ("Layers",)),
    ("fed2a", "Table 4"): Layout(lambda c: (method(c),), lambda c: (metric(c), dataset(c)), ("Strategy",)),
    ("fedagg", "Table III"): FEDAGG,
    ("fedagg", "Table V"): FEDAGG,
    ("fedagg", "Table VI"): Layout(lambda c: (part(c, "model"),), lambda c: (method(c),), ("Model",)),
}


def tables(found: Sequence[Verdict]) -> list[Table]:
    """The verdicts of one paper as its tables, tables first."""
    places = list(dict.fromkeys(v.claim.where for v in found))
    places.sort(key=lambda where: not where.startswith("Table"))
    return [_table(where, [v for v in found if v.claim.where == where]) for where in places]


def _table(where: str, found: Sequence[Verdict]) -> Table:
    layout = LAYOUTS.get((found[0].claim.paper, where), GENERAL)
    columns = list(dict.fromkeys(layout.column(v.claim) for v in found))
    first = list(layout.order) or list(dict.fromkeys(column[0] for column in columns))
    columns.sort(key=lambda column: first.index(column[0]))
    cells: dict[Labels, dict[Labels, Verdict]] = {}
    for v in found:
        row, column = cells.setdefault(layout.row(v.claim), {}), layout.column(v.claim)
        if column in row:
            raise ValueError(f"two claims in one cell of {where}: {row[column].id} and {v.id}")
        row[column] = v
    rows = tuple((labels, tuple(row.get(column) for column in columns)) for labels, row in cells.items())
    return Table(where, layout.heads, tuple(columns), rows)
