"""Fed2A: its accounting of uploads, the saving of PLU, Table 3, Table 4's trends, the partitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from bench.apart import answers
from bench.metrics import BYTES_PER_PARAMETER, GB, MB, upload_cost
from leaderboards.arithmetic import Book, Derivation
from leaderboards.ledger import Claim, printed_numbers
from leaderboards.metrics import Metric, share
from leaderboards.page.layout import TableLayout, dataset, method, metric
from leaderboards.papers import Special
from leaderboards.plans import Cell
from leaderboards.rivals import baselines

ROUNDS, P = 300, 10
PLU = {D: f"plu({ROUNDS},{P},{D})" for D in range(P - 1, 0, -1)}
DEEP_ROUNDS = {"fmnist": 7, "cifar10": 8, "gtsrb": 8}  # D of "Fed2A *", the note below Table 4
# (channels, height, width), classes
IMAGES = {"fmnist": ((1, 28, 28), 10), "cifar10": ((3, 32, 32), 10), "gtsrb": ((3, 32, 32), 43)}
PER_CLASS = {"fmnist": 5, "cifar10": 5, "gtsrb": 2}  # RCE's stimuli, Sec. 4.3
# smallest and largest share of a client, training images; 30 clients
SHARES = {"FMNIST": (1500, 2500, 60_000), "CIFAR-10": (1600, 2400, 50_000), "GTSRB": (900, 1500, 34_799)}


def deep_rounds(method: str, dataset: str) -> int:
    """In how many rounds of a period a strategy sends the deep layers too."""
    of_strategies = {"fed2a": DEEP_ROUNDS[dataset], **{name: D for D, name in PLU.items()}}
    return of_strategies.get(method, P)


@cache
def layers() -> dict[str, tuple[int, int]]:
    """Data set -> (shallow, deep) parameters of our own model for it."""
    questions = [(["protocol=fed2a", f"dataset={name}", "scale=paper"], *IMAGES[name]) for name in IMAGES]
    found = answers("bench.answers", ["layers"], questions, "the models could not be built")
    return {name: (shallow, deep) for name, (shallow, deep) in zip(IMAGES, found, strict=True)}


def _upload_of_run(rounds: int, wanted: Cell) -> float:
    """I3 of the paper's network: GB that one client uploads."""
    counts = layers()[wanted.dataset]
    return upload_cost(rounds, *counts, P, deep_rounds(wanted.method, wanted.dataset))


def _of_our_models(formula: Callable[[Claim, int, int], float]) -> Callable[[Claim], float | None]:
    """From the numbers of shallow and of deep parameters alone."""

    def find(claim: Claim) -> float | None:
        counts = layers().get(claim.dataset)
        return formula(claim, *counts) if counts else None

    return find


def _parameters(claim: Claim, shallow: int, deep: int) -> float:
    return {"shallow": shallow, "deep": deep}[claim.setting]


def _megabytes(parameters: float) -> float:
    return parameters * BYTES_PER_PARAMETER / MB


def _unit_cost(claim: Claim, book: Book) -> Derivation:
    count = book.get(claim, metric="parameters")
    return Derivation(_megabytes, (count,), f"{BYTES_PER_PARAMETER} bytes x {count.printed} parameters")


def _uploads(claim: Claim, book: Book, rounds: int, D: int) -> Derivation:
    counts = tuple(
        book.get(claim, where="Table 3", method="-", setting=layers, metric="parameters")
        for layers in ("shallow", "deep")
    )
    words = f"uploads of {rounds} rounds with P = {P}, D = {D}, Table 3"
    return Derivation(lambda shallow, deep: upload_cost(rounds, int(shallow), int(deep), P, D), counts, words)


def _upload_to_target(claim: Claim, book: Book) -> Derivation:
    rounds = int(book.get(claim, metric="rounds_to_target").number)
    return _uploads(claim, book, rounds, deep_rounds(claim.method, claim.dataset))


def _from_table(claim: Claim, book: Book) -> Derivation | None:
    """Fed2A's accuracies in whole per cents."""
    if claim.metric != "final_accuracy":
        return None
    first = book.get(claim, where="Table 4")
    return Derivation(lambda a: a, (first,), f"{first.text}, Table 4")


def _against_best_baseline(claim: Claim, book: Book) -> Derivation:
    """The best of those that reached the target at all."""
    if claim.where == "abstract":  # "over" so many per cent
        first = book.get(claim, where="Sec. 1")
        return Derivation(math.floor, (first,), f"{first.text} in Sec. 1, cut to whole per cents")
    assert claim.definition.comparison is not None
    name, formula = claim.definition.comparison
    higher = name == "final_accuracy"
    rows = [book.get(claim, where="Table 4", method=m, metric="rounds_to_target") for m in baselines(claim)]
    numbers = [book.get(row, metric=name) for row in rows if higher or row.value is not None]
    base = max(numbers, key=lambda c: c.number if higher else -c.number)
    mine = book.get(base, method=claim.method.partition(" vs ")[0])
    return Derivation(formula, (mine, base), f"{mine.text} against {base.text} of {base.method}, Table 4")


def _upload_ratio(claim: Claim, book: Book) -> Derivation:
    names = claim.method.split(" vs ")
    mine, base = (book.get(claim, where="Table 4", method=name, metric="upload_to_target") for name in names)
    return Derivation(share, (mine, base), f"{mine.text} / {base.text}, Table 4")


def stimuli(data: str) -> int:
    return PER_CLASS[data] * IMAGES[data][1]


def pairs(data: str) -> int:
    """Distances above the diagonal of an RDM, one for each two stimuli."""
    return math.comb(stimuli(data), 2)


def printed_pairs(m: int) -> float:
    return m * m / 2 - m


def rdm() -> str:
    counts = [(stimuli(data), pairs(data)) for data in ("fmnist", "gtsrb")]
    by_formula = " and ".join(f"{printed_pairs(m):.0f} for m = {m}" for m, _ in counts)
    counted = " and ".join(str(n) for _, n in counts)
    return f"that gives {by_formula}; there are {counted}, m (m - 1) / 2, as Sec. 4.3 has them"


def less_accurate(than: str) -> list[str]:
    """Where a variant of TVW ends below another strategy."""
    table = printed_numbers("fed2a", "Table 4", "final_accuracy", "method", "dataset")
    return [
        f"{name} {value:.2f} against {table[than, data]:.2f} ({data})"
        for (name, data), value in table.items()
        if name.startswith("tvw") and value < table[than, data]
    ]


def saved(D: int) -> float:
    """What PLU(300, 10, D) saves, in uploads of the deep layers, by adding up its rounds."""
    return (upload_cost(ROUNDS, 0, 1, P, P) - upload_cost(ROUNDS, 0, 1, P, D)) * GB / BYTES_PER_PARAMETER


def printed_saving(D: int) -> float:
    return ROUNDS * D / P - (P - D)


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
    table = printed_numbers("fed2a", "Table 3", "parameters", "dataset", "setting")
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


def rounds(data: str) -> dict[int, float]:
    """To the target, by D, the largest first; what was never reached is left out."""
    table = printed_numbers("fed2a", "Table 4", "rounds_to_target", "method", "dataset")
    return {D: table[name, data] for D, name in PLU.items() if (name, data) in table}


def falls(data: str) -> list[str]:
    """Where fewer deep uploads come with fewer rounds to the target."""
    return [f"{n:g} to {m:g} at D = {b}" for (_, n), (b, m) in pairwise(rounds(data).items()) if m < n]


def trend() -> str:
    return "it falls " + "; ".join(f"from {', '.join(falls(data))} ({data})" for data in DEEP_ROUNDS)


def soonest() -> list[int]:
    found = rounds("fmnist")
    return sorted(D for D, n in found.items() if n == min(found.values()))


SPECIAL = Special(
    metrics={"unit_cost": Metric(("MB",)), "upload_total": Metric(("GB",)), "rdm_pairs": Metric(("pairs",))},
    derivations={
        "unit_cost": _unit_cost,
        "upload_to_target": _upload_to_target,
        "upload_total": lambda claim, book: _uploads(claim, book, int(claim.stated["R"]), P),
        **dict.fromkeys(("accuracy_gain", "round_reduction", "upload_reduction"), _against_best_baseline),
        "upload_ratio": _upload_ratio,
        "Sec. 4.4": _from_table,
    },
    exact={
        "parameters": _of_our_models(_parameters),
        "unit_cost": _of_our_models(lambda claim, s, d: _megabytes(_parameters(claim, s, d))),
        "rdm_pairs": lambda claim: pairs(claim.dataset),
        "upload_total": _of_our_models(lambda claim, s, d: upload_cost(int(claim.stated["R"]), s, d, 1, 1)),
    },
    readings={"upload_to_target": _upload_of_run},
    labels={
        "rce": "RCE",
        "tvw-exp": "TVW-exp",
        "tvw-inv": "TVW-inv",
        "tvw-log": "TVW-log",
        **{name: name.upper() for name in PLU.values()},
    },
    layouts={
        "Table 3": TableLayout(lambda c: (f"{c.setting} layers",), lambda c: (dataset(c), metric(c)), ("Layers",)),
        "Table 4": TableLayout(lambda c: (method(c),), lambda c: (metric(c), dataset(c)), ("Strategy",)),
    },
    audit=(
        ("Sec. 3.3.1", "PLU saves R D d / P - (P - D) d", saving),
        ("Sec. 3.3.3", "an RDM of m stimuli stores m^2/2 - m distances", rdm),
        ("Sec. 4.1", "for GTSRB the convolutions have half the channels", halves),
        ("Sec. 4.1", "GTSRB is dealt out without repetition", partitions),
        ("Sec. 4.2", "rounds to target rise consistently as D falls", trend),
        (
            "Sec. 4.2",
            "D = 7 is the soonest PLU on FMNIST",
            lambda: f"as soon as D = {' and '.join(map(str, soonest()[1:]))}",
        ),
        ("Sec. 4.3", "the three TVW variants improve accuracy", lambda: "; ".join(less_accurate("fedavg"))),
        ("Sec. 4.3", "the three TVW variants are more accurate than RCE", lambda: "; ".join(less_accurate("rce"))),
    ),
)
