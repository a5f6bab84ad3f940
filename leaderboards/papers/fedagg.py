"""FedAgg: its tables of methods, a table that repeats another, Table III against what the text says of it."""

from __future__ import annotations

from leaderboards.arithmetic import Book, Derivation
from leaderboards.ledger import Claim, printed_numbers
from leaderboards.page.layout import TableLayout, dataset, method
from leaderboards.papers import Special
from leaderboards.plans import SweepRun


def _repeated(claim: Claim, book: Book) -> Derivation | None:
    """Table V shows the 20 % columns of three methods of Table III again."""
    if claim.method not in ("fedavg", "fedadam", "fedagg"):
        return None
    first = book.get(claim, where="Table III")
    return Derivation(lambda a: a, (first,), f"{first.text} in Table III")


def _controls(claim: Claim, at: SweepRun) -> bool:
    """FedAvg at FedAgg's rate, on the same distribution; run for the linear model and 20 % only."""
    wanted = {"model=Linear", "participation=20%", at.run.setting.partition(";")[0]}
    return at.sweep.name == "fedagg/equal_rate" and wanted <= {*claim.setting.split(";")}


def pairs() -> list[tuple[str, float, float]]:
    """Method, accuracy with 20 % and with 100 % of the clients, for every cell of Table III."""
    table = printed_numbers("fedagg", "Table III", "final_accuracy", "method", "dataset", "setting")
    return [
        (method, accuracy, table[method, data, setting.replace("=20%", "=100%")])
        for (method, data, setting), accuracy in table.items()
        if setting.endswith("=20%")
    ]


def participation() -> str:
    every = pairs()
    falls = [(method, part, full) for method, part, full in every if full < part]
    own = [f"{part:.2f} to {full:.2f}" for method, part, full in falls if method == "fedagg"]
    return f"accuracy falls in {len(falls)} of {len(every)} pairs, {len(own)} of them FedAgg's: {' and '.join(own)}"


METHODS = TableLayout(
    lambda c: (f"{dataset(c)} + {c.stated['model']}", c.stated["dist"]),
    lambda c: (method(c), c.stated["participation"]),
    ("Data and model", "Distribution"),
    ("FedAvg", "FedAdam", "FedAdagrad", "FedYogi", "FedProx", "FedDyn", "FedBABU", "FedGH", "FedAgg"),
)
SPECIAL = Special(
    derivations={"Table V": _repeated},
    controls=_controls,
    unsaid={"final_accuracy": "best_accuracy"},  # "accuracy" without saying of which round
    labels={"emnist_letters": "EMNIST-L"},
    layouts={
        "Table III": METHODS,
        "Table V": METHODS,
        "Table VI": TableLayout(lambda c: (c.stated["model"],), lambda c: (method(c),), ("Model",)),
    },
    audit=(
        ("Sec. VI-B.1", "consistent improvement with increasing participation", participation),
        (
            "Sec. VI-A.6",
            "CIFAR-100 is trained for 500 global iterations",
            lambda: "200 in Table IV and in Sec. VI-B.1",
        ),
    ),
)
