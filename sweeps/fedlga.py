"""FedLGA, IEEE Transactions on Cybernetics 2023: Tables IV to VI, Figs. 2 to 10, and what the paper leaves open."""

from __future__ import annotations

from functools import partial

from sweeps.plan import Sweep, cells, grid, same
from sweeps.readings import CHOOSING, Open, Reading, asked_one_by_one, each
from sweeps.scaled import Scaled, calibrated, rates

IMAGES = ("fmnist", "cifar10", "cifar100")
CIFAR = ("cifar10", "cifar100")
DEFAULT = "rho=0.5;tau_max=E-1;E=5"  # Sec. VI-A3, and the protocol's
table = partial(cells, "fedlga")
Rounds = partial(Sweep, goal="rounds_to_target")


def lga(name: str, scale: object, source: str, why: str, **more: str) -> Reading:
    keys = {"scale": scale, "gradient": "update", "product": "outer", "times": "once", **more}
    return Reading(name, " ".join(f"algo.{key}={value}" for key, value in keys.items()), source, why)


SIGN = "Table I (l. 61) and l. 99: Delta = w - w_{i,E}; Alg. 1 has the opposite."
UNIT = "Eqs. (4) and (5), l. 118-127: a Hessian times a displacement is added to an update."
DC_ASGD = 'l. 121: "as illustrated in [55]", which is DC-ASGD; l. 158: "linear to the dimension of w".'
LENGTH = "Eq. (5), l. 127: a displacement is added to an update, so that G has no unit."
FEDLGA = Open(
    about="FedLGA's approximation: sign and size, which gradient, which product, how often",
    methods=("fedlga",),
    datasets=("*",),
    readings=(
        lga("to the letter", 1, "Alg. 2, l. 12 (l. 184): Delta + G (w_hat - w_i), G = g g'.", "Nothing is added."),
        lga("minus", -1, SIGN, "Eq. (5) in the one sign, put into Alg. 1's."),
        lga("minus a tenth", -0.1, "Ours.", "Between no approximation and the whole one."),
        lga("eta_l", "eta_l", UNIT, "A rate makes a gradient an update."),
        lga("minus eta_l", "-eta_l", f"{SIGN} {UNIT}", "Both: a step of descent."),
        lga("each missing epoch", "-eta_l", "l. 121: between E_i and E.", "Eq. (4)'s sum.", times="missing"),
        lga("tau_i times", "-eta_l", "l. 139: tau_i is sent; l. 233 has tau_max^2.", "Else why send it.", times="tau"),
        lga("last gradient", -1, "Eq. (6), l. 132: at w_{i,E_i}.", "The nearest that was computed.", gradient="last"),
        lga("diagonal", 1, DC_ASGD, "G's diagonal, as there.", product="diagonal"),
        lga("diagonal, minus", -1, f"{DC_ASGD} {SIGN}", "Both.", product="diagonal"),
        lga("normalised", 1, LENGTH, "g g' / |g|^2.", product="normalised"),
        lga("normalised, minus", -1, f"{LENGTH} {SIGN}", "Both.", product="normalised"),
        lga(
            "the mean of those who finished",
            1,
            "l. 121: g = (Delta_E - Delta_{E_i}) / (E - E_i), with w_hat for w_{i,E} (l. 125).",
            "Then Delta_hat is that mean.",
            gradient="gap",
            product="normalised",
        ),
    ),
    chosen="last gradient",
    sweep="fedlga/readings",
)
RATE = Open(
    about="what e counts in Eq. (2), and eta_l",
    methods=("*",),
    datasets=("fmnist",),
    readings=(
        *(
            Reading(
                f"steps, {rate}",
                f"local_unit=step lr={rate}",
                "Eq. (2), Alg. 1 l. 4: one mini-batch gradient for each e; no rate is given.",
                "FedAvg at 0.005 comes near its 116 rounds.",
            )
            for rate in (0.0025, 0.005, 0.01)
        ),
        Reading(
            "passes, 0.0001",
            "local_unit=epoch lr=0.0001",
            'Sec. VI-A3: "local epochs"; no rate is given.',
            "Table V's seconds fit full passes, which reach the target in few rounds unless the rate is small.",
        ),
    ),
    chosen="steps, 0.005",
    sweep="fedlga/calibration",
)


def tuned(method: str, key: str, own: float, values: tuple[float, ...], chosen: float) -> Open:
    """Table IV gives the values that were tried, and nowhere those that were taken; `own`: in the method's paper."""
    source = 'Table IV, l. 330: "Hyperparameter Grid Search"; which value the other tables have is not said.'
    readings = [Reading(f"{key}={value}", f"{key}={value}", source, "A value of the table.") for value in values]
    if own not in values:
        why = "The earlier version, arXiv 2112.11989, prints the same rounds and says that nothing was tuned."
        readings.append(Reading(f"{key}={own}", f"{key}={own}", "Ours: the method's own paper.", why))
    return Open(f"{method}'s {key}", (method,), ("*",), tuple(readings), f"{key}={chosen}", "fedlga/readings")


# Sec. VI-A2; c, with no counterpart in SCAFFOLD's paper, is read as a factor on the control variate; FedLGA's
# "momentum beta" of FedCM is our a.
TUNED = {
    "fedprox": tuned("fedprox", "algo.mu", 1, (0.1, 0.5, 1), chosen=0.1),
    "fednova": tuned("fednova", "algo.mu", 0, (0.001, 0.005, 0.01), chosen=0.001),
    "scaffold": tuned("scaffold", "algo.c", 1, (5, 10, 20), chosen=1),
    "feddyn": tuned("feddyn", "algo.alpha", 0.01, (0.1, 0.01, 0.001), chosen=0.1),
    "fedcm": tuned("fedcm", "algo.a", 0.1, (0.01, 0.1, 0.5), chosen=0.1),
    "mimelite": tuned("mimelite", "algo.beta", 0.1, (0.01, 0.1, 0.5), chosen=0.1),
    "fedsam": tuned("fedsam", "algo.r", 0.1, (0.1, 0.5, 0.9), chosen=0.1),
}
OPEN = (FEDLGA, RATE, *TUNED.values())
METHODS = {
    "fedlga": f"algo=fedlga {FEDLGA.words}",
    "fedavg": "algo=fedavg",
    **{name: f"algo={name} {question.words}" for name, question in TUNED.items()},
}
LGA = {"fedlga": METHODS["fedlga"]}

TABLE_IV = {
    name: grid(
        f"algo={name}", *question.keys, *(reading.words[0].partition("=")[2] for reading in question.readings[:3])
    )
    for name, question in TUNED.items()
}
# not in the table; three values each, so that every method is tuned with the same budget
UNTUNED = {
    "fedavg": grid("algo=fedavg", "lr", 0.0025, 0.005, 0.01),
    "fedlga": grid("algo=fedlga algo.gradient=update", "algo.scale", -0.03, -0.1, -0.3),
}

table4 = Rounds(
    name="fedlga/table4",
    source='Table IV, Sec. VI-A3: "For the compared methods, we set up the hyperparameters via a grid search". Ours: '
    "three values each for FedAvg (rate) and FedLGA (scale), which the table leaves out; lr 0.005 on FMNIST",
    runs=table(IMAGES, {DEFAULT: ""}, UNTUNED | TABLE_IV),
)

comparison = table(IMAGES, {DEFAULT: ""}, METHODS)
table5 = Rounds(
    name="fedlga/table5",
    source="Table V, Sec. VI-B3: running time to the target; Figs. 3-5: accuracy, loss and best accuracy of the same "
    'runs, "rho = 0.5, tau_max = E - 1 and E = 5". FedSAM\'s two gradients a step count as two operations (Sec. VI-A3)',
    covers=("Table V", "Fig. 3(c) text", "Fig. 4(b) text", "Fig. 5 text", "Fig. 5(b) text", "abstract"),
    runs=comparison
    + same(comparison, "rho=0.5", dataset="cifar10", method="fedlga")
    + same(comparison, "rho=0.5", dataset="cifar10", method="fedavg"),
)

TAU_MAX = {f"rho=0.5;tau_max=0.{2 * tau}E;E=5": f"devices.tau_max={tau}" for tau in (4, 3, 2, 1)}
table6 = Rounds(
    name="fedlga/table6",
    source="Table VI, Sec. VI-C1: rounds to the target with tau_max = {0.8, 0.6, 0.4, 0.2} E; the others at 0.8 E. At "
    "0.2 E = 1 nobody is late, and FedLGA is FedAvg",
    covers=("Table VI",),
    runs=table(IMAGES, TAU_MAX, LGA)
    + table(
        IMAGES, {"rho=0.5;tau_max=0.8E;E=5": "devices.tau_max=4"}, {k: v for k, v in METHODS.items() if k not in LGA}
    ),
)

fig2 = Sweep(
    name="fedlga/fig2",
    source='Fig. 2: "Toy example in system-heterogeneous FL on CIFAR-100 with 50 remote devices and each device has 20 '
    'classes", E = 5 for all against E_i ~ U{1..5}',
    runs=table(
        ("cifar100",),
        {"E=5": "devices.rho=0", "E~U{1..5}": "devices.rho=1 devices.tau_max=5"},
        {"fedavg": METHODS["fedavg"]},
    ),
)

fig6 = Rounds(
    name="fedlga/fig6",
    source="Fig. 6, Sec. VI-B2: rounds to the target by E, rho = 0.5, tau_max = E - 1; the text names E = 5 and 8, the "
    "others are ours",
    covers=("Fig. 6 text",),
    runs=table(IMAGES, {f"rho=0.5;E={e}": f"epochs={e}" for e in (2, 5, 8, 10)}, METHODS),
)

fig7 = Rounds(
    name="fedlga/fig7",
    source="Fig. 7, Sec. VI-B2: rounds to the target by the share rho of late devices, E = 5, tau_max = E - 1; the "
    "text names rho = 0.1 and 0.5, the others are ours",
    covers=("Fig. 7 text",),
    runs=table(IMAGES, {f"rho={rho};E=5": f"devices.rho={rho}" for rho in (0.1, 0.3, 0.5, 0.7, 0.9)}, METHODS),
)

fig8 = Sweep(
    name="fedlga/fig8",
    source='Fig. 8, Sec. VI-C2: "N in {30, 50, 100}", K = 10, rho = 0.5, E = 5',
    runs=table(CIFAR, {f"rho=0.5;E=5;N={n}": f"clients={n}" for n in (30, 50, 100)}, LGA),
)

fig9 = Rounds(
    name="fedlga/fig9",
    source='Fig. 9, Sec. VI-C3: "K in {5, 10, 25}", N = 50, rho = 0.5, E = 5',
    covers=("Fig. 9 text",),
    runs=table(CIFAR, {f"rho=0.5;E=5;K={k}": f"cohort={k}" for k in (5, 10, 25)}, LGA),
)

fig10 = Sweep(
    name="fedlga/fig10",
    source='Fig. 10, Sec. VI-C4: "xi in {1, 2, 3}", P = 3 (CIFAR-10) and 30 (CIFAR-100)',
    runs=tuple(
        run
        for dataset, classes in (("cifar10", 3), ("cifar100", 30))
        for run in table(
            (dataset,),
            {
                f"rho=0.5;E=5;xi={xi}": f"partition=classes partition.per_client={classes} partition.imbalance={xi}"
                for xi in (1, 2, 3)
            },
            LGA,
        )
    ),
)

TENTH = next(reading.overrides for reading in FEDLGA.readings if reading.name == "minus a tenth")
VARIED = {"fedlga": f"algo=fedlga {TENTH}"}
BOTH = {"fedavg": METHODS["fedavg"], **VARIED}
fmnist = partial(table, ("fmnist",))


def vary(name: str, key: str, default: object, *others: object) -> dict[str, str]:
    """Settings that change one key of the protocol, the unchanged one first."""
    return {f"{name}={default}": ""} | {f"{name}={value}": f"{key}={value}" for value in others}


variations = Rounds(
    name="fedlga/variations",
    source="Eqs. (4)-(7), Alg. 1, Table I: sign and scale of the approximation (+1: to the letter), which gradient, "
    "what an epoch is, eta_l, eta_g (Corollary 2: sqrt(E K) = 7.07) and momentum are open. All values ours, one "
    "changed at a time from the scale -0.1; scale = 0 is FedAvg, the control at each eta_g",
    runs=fmnist(vary("scale", "algo.scale", -0.1, 1, 0.1, "eta_l", "-eta_l", -1), VARIED)
    + fmnist(vary("gradient", "algo.gradient", "update", "last"), VARIED)
    + fmnist(vary("eta_g", "algo.eta_g", 1, 0.5, 2, 7.07), VARIED)
    + fmnist({f"eta_g={e};scale=0": f"algo.eta_g={e} algo.scale=0" for e in (0.5, 1, 2, 7.07)}, VARIED)
    + fmnist(vary("unit", "local_unit", "step", "epoch"), BOTH)
    + fmnist(vary("eta_l", "lr", 0.005, 0.001, 0.003, 0.01, 0.03, 0.1), BOTH)
    + fmnist(vary("momentum", "momentum", 0, 0.5), BOTH)
    + fmnist(vary("normalise", "normalise", "false", "true"), BOTH)
    + fmnist(vary("late", "devices.straggler", "tau", "epochs"), BOTH),
)

FMNIST = tuple(run for run in table6.runs if run.dataset == "fmnist")
readings = Rounds(
    name="fedlga/readings",
    source="What the paper leaves open of a method, in every reading, on calibration seeds, FMNIST: FedLGA's "
    "approximation, and each other method's value of Table IV",
    covers=("Table V", "Table VI", "Fig. 5 text"),
    runs=asked_one_by_one(FMNIST, FEDLGA, *TUNED.values()),
    seeds=CHOOSING,
)
calibration = Rounds(
    name="fedlga/calibration",
    source="What the paper leaves open of every run, on calibration seeds, by FedAvg alone, FMNIST: the rate, and what "
    "a local epoch is",
    covers=("Table V", "Table VI", "Fig. 5 text"),
    runs=each((run for run in FMNIST if run.method == "fedavg"), RATE),
    seeds=CHOOSING,
)


def small(rounds: int) -> dict[str, str]:
    size = f"dataset.resize=16 model.width=0.5 rounds={rounds} eval_every=10"
    return rates(size, (0.01, 0.03, 0.1, 0.3), momentum=(0.01, 0.03))


SCALED = (
    Scaled(dataset="cifar10", target=0.55, share=350 / 600, printed=0.6091, points=small(600)),  # its best accuracy
    Scaled(dataset="cifar100", target=0.4, share=277 / 500, points=small(500)),  # no accuracy is printed
)
scale, target = calibrated("fedlga", SCALED, "16 pixels and half the channels; the rate and momentum are not given")

SWEEPS = (
    *(table4, table5, table6, fig2, fig6, fig7, fig8, fig9, fig10),
    *(variations, readings, calibration, scale, target),
)
