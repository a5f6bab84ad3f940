"""Fed2A: the saving of PLU, Table 3, Table 4's trends, the partitions."""

from __future__ import annotations

from itertools import pairwise

from bench.metrics import BYTES_PER_PARAMETER, GB, upload_cost
from leaderboards.audit.cells import Entry, cells

DATA = ("fmnist", "cifar10", "gtsrb")
R, P = 300, 10
# smallest and largest share of a client, training images; 30 clients
SHARES = {"FMNIST": (1500, 2500, 60_000), "CIFAR-10": (1600, 2400, 50_000), "GTSRB": (900, 1500, 34_799)}


def saved(D: int) -> float:
    """What PLU(300, 10, D) saves, in uploads of the deep layers, by adding up its rounds."""
    return (upload_cost(R, 0, 1, P, P) - upload_cost(R, 0, 1, P, D)) * GB / BYTES_PER_PARAMETER


def printed_saving(D: int) -> float:
    return R * D / P - (P - D)


def saving() -> str:
    return (
        f"D = 8 saves {saved(8):.0f} d by adding up, {printed_saving(8):.0f} d by the formula; D = 10, which saves "
        f"nothing, {printed_saving(10):.0f} d; right is (R/P - 1)(P - D) d"
    )


def gtsrb_parameters(conv: tuple[int, int], dense: tuple[int, int]) -> tuple[int, int]:
    """Shallow and deep: two 5x5 convolutions, one 2x2 pooling, two dense layers and the output, 32 x 32 x 3 images."""
    side = (32 - 4 - 4) // 2
    shallow = sum(25 * a * b + b for a, b in pairwise((3, *conv)))
    return shallow, sum(a * b + b for a, b in pairwise((side * side * conv[1], *dense, 43)))


def halves() -> str:
    channels, units = gtsrb_parameters((32, 64), (256, 512)), gtsrb_parameters((64, 128), (128, 256))
    table = cells("fed2a", "Table 3", "parameters", "dataset", "setting")
    printed = (int(table["gtsrb", "shallow"]), int(table["gtsrb", "deep"]))
    which = {channels: "half the channels", units: "half the dense units"}[printed]
    texts = [f"{shallow:,} and {deep:,}" for shallow, deep in (channels, printed)]
    return f"that gives {texts[0]} parameters; Table 3 has {texts[1]}: {which}"


def demand() -> dict[str, int]:
    """Samples that 30 clients of mid-range size take."""
    return {name: 30 * (low + high) // 2 for name, (low, high, _) in SHARES.items()}


def partitions() -> str:
    needs = ", ".join(f"{need:,} of {SHARES[name][2]:,} ({name})" for name, need in demand().items())
    return f"30 clients of mid-range size take {needs}"


def falls(data: str) -> list[str]:
    """Where fewer deep uploads come with fewer rounds to the target."""
    table = cells("fed2a", "Table 4", "rounds_to_target", "method", "dataset")
    rounds = [(D, n) for D in range(9, 0, -1) if (n := table.get((f"plu(300,10,{D})", data))) is not None]
    return [f"{n:g} to {m:g} at D = {b}" for (_, n), (b, m) in pairwise(rounds) if m < n]


def trend() -> str:
    return "it falls " + "; ".join(f"from {', '.join(falls(data))} ({data})" for data in DATA)


def soonest() -> list[int]:
    table = cells("fed2a", "Table 4", "rounds_to_target", "method", "dataset")
    rounds = {D: table[f"plu(300,10,{D})", "fmnist"] for D in range(1, 10)}
    return [D for D, n in rounds.items() if n == min(rounds.values())]


ENTRIES: tuple[Entry, ...] = (
    ("Sec. 3.3.1", "PLU saves R D d / P - (P - D) d", saving),
    ("Sec. 4.1", "for GTSRB the convolutions have half the channels", halves),
    ("Sec. 4.1", "GTSRB is dealt out without repetition", partitions),
    ("Sec. 4.2", "rounds to target rise consistently as D falls", trend),
    (
        "Sec. 4.2",
        "D = 7 is the soonest PLU on FMNIST",
        lambda: f"as soon as D = {' and '.join(map(str, soonest()[1:]))}",
    ),
)
