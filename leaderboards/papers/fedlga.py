"""FedLGA: its default setting, Tables V and VI, their texts, and the paper's earlier version (arXiv 2112.11989)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from leaderboards.arithmetic import Book, Derivation
from leaderboards.ledger import Claim, printed_numbers
from leaderboards.metrics import Metric, fewer, more
from leaderboards.page.layout import TableLayout, dataset, method, metric
from leaderboards.papers import Special
from leaderboards.plans import Cell, cell_of

# what settings leave out (Sec. VI-A3)
DEFAULTS = {"rho": "0.5", "tau_max": "E-1", "E": "5", "K": "10"}
SPEEDUP, GAIN = "fedlga_round_speedup_over_method", "fedlga_best_accuracy_gain_over_method"
PLACE = "training_loss_place"
NO_LOSS = "the results that verdicts rest on keep accuracies, seconds and bytes, and no training loss"
SECONDS_TOLERANCE = 0.005
DATA = ("fmnist", "cifar10", "cifar100")
# the earlier version's Tables IV (seconds a round and to target) and V (rounds), per data set
EARLIER = {
    "fedlga": ((9.4, 565.8, 60), (12.1, 2668.6, 220), (11.8, 1711.0, 145)),
    "fedavg": ((8.9, 1032.4, 116), (10.7, 3741.5, 350), (11.3, 3130.1, 277)),
    "fedprox": ((12.2, 1171.7, 96), (13.4, 3932.1, 293), (12.9, 2747.7, 213)),
    "fednova": ((9.1, 910.0, 100), (10.9, 3640.6, 334), (11.6, 3120.4, 269)),
    "scaffold": ((11.2, 806.7, 72), (13.1, 3636.2, 278), (12.4, 2287.8, 185)),
    "feddyn": ((12.2, 869.3, 71), (12.8, 3251.2, 254), (12.7, 2057.4, 162)),
}
EPOCHS, RHO = 5, 0.5


def _canonical(parts: Sequence[str]) -> Sequence[str]:
    """With E = 5 its tau_max = 0.8E is the default E - 1."""
    given = dict(part.split("=", 1) for part in parts if "=" in part)
    if given.get("tau_max") == "0.8E" and given.get("E", "5") == "5":
        del given["tau_max"]
    words = [part for part in parts if "=" not in part]
    return [*(f"{key}={value}" for key, value in (DEFAULTS | given).items()), *words]


def _compared(claim: Claim) -> tuple[Cell, list[Cell]] | None:
    if claim.metric in (SPEEDUP, GAIN):
        return cell_of(claim, "fedlga"), [cell_of(claim)]
    return None


def _table_vi(claim: Claim, book: Book, method: str) -> Claim:
    """The rounds in the default setting."""
    setting = "rho=0.5;tau_max=0.8E;E=5"
    return book.get(claim, where="Table VI", method=method, setting=setting, metric="rounds_to_target")


def _seconds_to_target(claim: Claim, book: Book) -> Derivation:
    single, rounds = book.get(claim, metric="seconds_per_round"), _table_vi(claim, book, claim.method)
    words = f"{single.printed} s a round x {rounds.printed} rounds"
    return Derivation(lambda a, b: a * b, (single, rounds), words, SECONDS_TOLERANCE)


def _repeated_rounds(claim: Claim, book: Book) -> Derivation | None:
    """Those of FedLGA, which the speed-ups of the same sentence are about."""
    if claim.metric != "rounds_to_target":
        return None
    first = _table_vi(claim, book, claim.method)
    return Derivation(lambda a: a, (first,), f"{first.text}, Table VI")


def _speedup(claim: Claim, book: Book) -> Derivation:
    base, own = _table_vi(claim, book, claim.method), _table_vi(claim, book, "fedlga")
    return Derivation(lambda a, b: a / b, (base, own), f"{base.printed} / {own.printed} rounds, Table VI")


def _gain_over_fedavg(claim: Claim, book: Book) -> Derivation | None:
    if claim.method != "fedavg":
        return None  # the others' best accuracies are only drawn
    own, base = (
        book.get(claim, where="abstract", method=name, setting="rho=0.5", metric="best_accuracy")
        for name in ("fedlga", "fedavg")
    )
    return Derivation(more, (own, base), f"{own.printed} % against {base.printed} %, abstract")


def _fewer_rounds_with_more_devices(claim: Claim, book: Book) -> Derivation:
    many = book.get(claim, setting="rho=0.5;E=5;K=25", metric="rounds_to_target")
    few = _table_vi(claim, book, claim.method)
    return Derivation(fewer, (many, few), f"{many.printed} rounds instead of {few.printed}, Table VI")


def rounds(tau_max: str) -> dict[tuple[str, ...], float]:
    """Table VI by method and data set; the rivals stand at the default, 0.8E."""
    table = printed_numbers("fedlga", "Table VI", "rounds_to_target", "method", "dataset", "setting")
    return {(m, d): n for (m, d, setting), n in table.items() if f"tau_max={tau_max};" in setting}


def seconds(metric: str) -> dict[tuple[str, ...], float]:
    return printed_numbers("fedlga", "Table V", metric, "method", "dataset")


def table_v_and_vi() -> tuple[dict[tuple[str, ...], float], ...]:
    """Seconds a round, seconds to target, rounds to target."""
    return seconds("seconds_per_round"), seconds("seconds_to_target"), rounds("0.8E")


def ranks(methods: Collection[str]) -> list[int]:
    """FedLGA's place by seconds a round among these methods, per data set."""
    single = seconds("seconds_per_round")
    return [1 + sum(single[m, d] < single["fedlga", d] for m in methods) for d in DATA]


def third_best() -> str:
    everyone = {method for method, _ in seconds("seconds_per_round")}
    now, before = (", ".join(map(str, ranks(methods))) for methods in (everyone, EARLIER))
    return f"place {now} of {len(everyone)}; among the six methods of the earlier version {before}"


def products() -> tuple[int, list[tuple[str, ...]]]:
    """How many totals are rounded seconds x rounds to the digit; and those whose mean prints otherwise."""
    single, total, n = table_v_and_vi()
    exact = sum(abs(total[key] - single[key] * n[key]) < 0.05 for key in total)
    return exact, [key for key in total if abs(total[key] / n[key] - single[key]) > 0.05]


def totals() -> str:
    (exact, [odd, *_]), tables = products(), table_v_and_vi()
    single, total, n = (table[odd] for table in tables)
    words = f"{exact} of {len(tables[1])} are the printed seconds a round x rounds to the digit; not its own mean:"
    return f"{words} {' on '.join(odd)}: {total:g} / {n:g} = {total / n:.3f}, printed {single:g}"


def lost(tau_max: int) -> float:
    """The share of local epochs that stragglers do not do, tau ~ U{1..tau_max}, E_i = E + 1 - tau."""
    return RHO * sum(tau - 1 for tau in range(1, tau_max + 1)) / tau_max / EPOCHS


def nobody_late() -> str:
    own, rival = rounds("0.2E"), rounds("0.8E")
    pairs = ", ".join(f"{own['fedlga', d]:g} against {rival['fedavg', d]:g}" for d in DATA)
    return (
        f"tau = 1 for every device: {lost(1):.0%} of the epochs are lost, so by Eq. 7 this is FedAvg; FedAvg's row, "
        f"where {lost(4):.0%} are lost, needs up to four times the rounds: {pairs}"
    )


def reprinted() -> tuple[int, int]:
    """How many numbers of the earlier version stand in the final one, and of how many."""
    pairs = [
        (table[method, data], old)
        for method, row in EARLIER.items()
        for data, olds in zip(DATA, row, strict=True)
        for table, old in zip(table_v_and_vi(), olds, strict=True)
    ]
    return sum(a == b for a, b in pairs), len(pairs)


def grid_search() -> str:
    numbers = "{} of {} numbers".format(*reprinted())
    return f"{numbers} are those of the earlier version, which says that nothing was tuned (FedProx: mu = 1)"


SPECIAL = Special(
    metrics={
        SPEEDUP: Metric(("x",), "FedLGA's speed-up", ("rounds_to_target", lambda new, old: old / new)),
        GAIN: Metric(("% relative",), "FedLGA's gain, best accuracy", ("best_accuracy", more)),
        PLACE: Metric(("of 9",), "place by training loss"),
    },
    derivations={
        "seconds_to_target": _seconds_to_target,
        SPEEDUP: _speedup,
        GAIN: _gain_over_fedavg,
        "round_reduction": _fewer_rounds_with_more_devices,
        "Fig. 3(c) text": _repeated_rounds,
    },
    canonical=_canonical,
    default_setting="rho=0.5",
    obstacle=lambda claim: NO_LOSS if claim.metric == PLACE else None,
    compared=_compared,
    # "the performance is evaluated based on the operation number", Sec. VI-A3: two gradients a step
    operations=lambda claim: 0.5 if claim.method == "fedsam" else 1.0,
    controls=lambda claim, at: at.sweep.name == "fedlga/variations" and at.run.setting.startswith("eta_g="),
    regression=tuple(
        f"fedlga/table-vi/{name}/fmnist/rho=0.5+tau_max={tau_max}e+e=5/rounds_to_target"
        for name, tau_max in (("fedlga", 0.8), ("fedlga", 0.2), ("fedavg", 0.8), ("fedprox", 0.8), ("scaffold", 0.8))
    ),
    layouts={
        "Table V": TableLayout(lambda c: (method(c),), lambda c: (dataset(c), metric(c)), ("Method",)),
        "Table VI": TableLayout(
            lambda c: (method(c), c.stated["tau_max"] if c.method == "fedlga" else "–"),
            lambda c: (dataset(c),),
            ("Method", "τ max"),
        ),
    },
    audit=(
        ("Sec. VI-B.3", "FedLGA is third-best on seconds a round", third_best),
        ("Table V", "totals of a measured running time", totals),
        ("Table VI", "FedLGA at tau_max = 0.2E = 1", nobody_late),
        ("Sec. VI-A.3", "hyperparameters by a grid search", grid_search),
    ),
)
