"""FedAgg: Table III against what the text says of it."""

from __future__ import annotations

from leaderboards.audit.cells import Entry, cells

Pair = tuple[str, float, float]


def pairs() -> list[Pair]:
    """Method, accuracy with 20 % and with 100 % of the clients, for every cell of Table III."""
    table = cells("fedagg", "Table III", "final_accuracy", "method", "dataset", "setting")
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


def iterations() -> str:
    return "200 in Table IV and in Sec. VI-B.1"


ENTRIES: tuple[Entry, ...] = (
    ("Sec. VI-B.1", "consistent improvement with increasing participation", participation),
    ("Sec. VI-A.6", "CIFAR-100 is trained for 500 global iterations", iterations),
)
