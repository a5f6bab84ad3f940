"""FedLGA: Tables V and VI, their texts, and the paper's earlier version (arXiv 2112.11989)."""

from __future__ import annotations

from collections.abc import Collection

from leaderboards.audit.cells import Entry, Numbers, cells

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


def rounds(tau_max: str) -> Numbers:
    """Table VI by method and data set; the rivals stand at the default, 0.8E."""
    table = cells("fedlga", "Table VI", "rounds_to_target", "method", "dataset", "setting")
    return {(m, d): n for (m, d, setting), n in table.items() if f"tau_max={tau_max};" in setting}


def seconds(metric: str) -> Numbers:
    return cells("fedlga", "Table V", metric, "method", "dataset")


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
    single, total, n = seconds("seconds_per_round"), seconds("seconds_to_target"), rounds("0.8E")
    exact = sum(abs(total[key] - single[key] * n[key]) < 0.05 for key in total)
    return exact, [key for key in total if abs(total[key] / n[key] - single[key]) > 0.05]


def totals() -> str:
    exact, odd = products()
    total, n, single = seconds("seconds_to_target"), rounds("0.8E"), seconds("seconds_per_round")
    means = [
        f"{m} on {d}: {total[m, d]:g} / {n[m, d]:g} = {total[m, d] / n[m, d]:.3f}, printed {single[m, d]:g}"
        for m, d in odd
    ]
    return (
        f"{exact} of {len(total)} are the printed seconds a round x rounds to the digit; not its own mean: {means[0]}"
    )


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
    now = (seconds("seconds_per_round"), seconds("seconds_to_target"), rounds("0.8E"))
    pairs = [
        (table[method, data], old)
        for method, row in EARLIER.items()
        for data, olds in zip(DATA, row, strict=True)
        for table, old in zip(now, olds, strict=True)
    ]
    return sum(a == b for a, b in pairs), len(pairs)


def grid_search() -> str:
    same, of = reprinted()
    return (
        f"{same} of {of} numbers are those of the earlier version, which says that nothing was tuned (FedProx: mu = 1)"
    )


ENTRIES: tuple[Entry, ...] = (
    ("Sec. VI-B.3", "FedLGA is third-best on seconds a round", third_best),
    ("Table V", "totals of a measured running time", totals),
    ("Table VI", "FedLGA at tau_max = 0.2E = 1", nobody_late),
    ("Sec. VI-A.3", "hyperparameters by a grid search", grid_search),
)
