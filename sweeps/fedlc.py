"""FedLC, IEEE Transactions on Mobile Computing: Figs. 2 to 12, and the controls that the paper leaves out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

from sweeps.plan import PlannedRun, Sweep, cells, merged, same
from sweeps.readings import CHOOSING, Open, Reading, asked_one_by_one, each
from sweeps.scaled import Scaled, calibrated, rates

DATASETS = {"cifar10": "dataset=cifar10", "emnist_byclass": "dataset=emnist", "image100": "dataset=image100"}
CIFAR = {"cifar10": DATASETS["cifar10"]}
table = partial(cells, "fedlc")

OWN = ("fedlc", "sc_fedlc", "fedlc_t")
STEP = 'l. 54: "we define a local epoch as a gradient descent step on the local loss function".'


def dispatch(*datasets: str, batch: int, sweep: str | None = None) -> Open:
    """What a device trains; a batch of 10^6 is all that it has."""
    ways = (
        (
            "a pass",
            "epoch",
            batch,
            "l. 104: multiple local iterations may be performed at each epoch.",
            "Else few move.",
        ),
        ("a mini-batch", "step", batch, f"{STEP} Table 3 has a batch size.", "One step, as defined."),
        ("a full gradient", "step", 1_000_000, f"{STEP} Eq. (3), l. 79: of F_i, not of a batch.", "To the letter."),
    )
    return Open(
        about="what a dispatch trains",
        methods=("*",),
        datasets=datasets,
        readings=tuple(
            Reading(name, f"local_unit={unit} epochs=1 batch_size={size}", source, why)
            for name, unit, size, source, why in ways
        ),
        chosen="a pass",
        sweep=sweep,
        scale="cpu",
    )


DISPATCH = dispatch("cifar10", "emnist_byclass", batch=64, sweep="fedlc/readings")
LOCALCOL = Open(
    about="whom LOCALCOL chooses",
    methods=OWN,
    datasets=("*",),
    readings=(
        Reading(
            "the listing's k, by index",
            "algo.localcol_k=listing algo.localcol_order=index",
            "Alg. 1, l. 24-37: k grows after a device is taken; devices in turn.",
            "Somebody is chosen.",
        ),
        Reading(
            "the listing's k, fast links first",
            "algo.localcol_k=listing algo.localcol_order=links",
            'l. 456: devices with gamma > 1 "are encouraged to collaborate".',
            "It saves traffic.",
        ),
        Reading(
            "Eq. (40)'s k",
            "algo.localcol_k=eq40 algo.localcol_order=index",
            "l. 306: k = |R| + 1.",
            "To the letter; then nobody is ever chosen.",
        ),
    ),
    chosen="Eq. (40)'s k",
    sweep="fedlc/readings",
    scale="cpu",
)
RATE_OF = Open(
    about="Theorem 1's rate: clamped or not, and of what",
    methods=OWN,
    datasets=("*",),
    readings=tuple(
        Reading(
            f"{name}, {of[0]}",
            f"{bounds} algo.eta_of={key}",
            f"{source} {of[1]}",
            "It may be ten times the rivals' rate and more.",
        )
        for (name, bounds, source), (key, of) in product(
            (
                ("clamped", "algo.eta_min=0.1 algo.eta_max=10", "Ours: to a tenth and ten times Table 3's rate."),
                (
                    "as it comes",
                    "algo.eta_min=null algo.eta_max=null",
                    "Alg. 1, l. 17 (l. 345): eta = eps D / (d beta xi).",
                ),
            ),
            {
                "step": ("of each step", "Eq. (3), l. 79: the rate of a step."),
                "dispatch": ("of a dispatch", "Eq. (4), l. 85: the rate of all that is uploaded."),
            }.items(),
        )
    ),
    chosen="clamped, of a dispatch",
    sweep="fedlc/readings",
    scale="cpu",
    stood=((LOCALCOL, LOCALCOL.readings[0].name),),
)
LIMITS = (1, 3, 5, 10, 19)
BUDGET = Open(
    about="the budgets C_i/c and B_j/b",
    methods=OWN,
    datasets=("*",),
    readings=tuple(
        Reading(
            f"{n} each",
            f"algo.compute_budget={n} algo.link_budget={n}",
            "Ours: none is given.",
            "From one neighbour to all 19.",
        )
        for n in LIMITS
    ),
    chosen="5 each",
)
OPEN = (DISPATCH, dispatch("image100", batch=32), RATE_OF, LOCALCOL, BUDGET)

# Sec. 5.1.3
RIVALS = {"fedavg": "algo=fedavg", "ce_afl": "algo=ce_afl algo.alpha=0.5", "afo": "algo=afo algo.alpha=0.6"}
OURS = {"fedlc": "algo=fedlc", "sc_fedlc": "algo=sc_fedlc"}
METHODS = RIVALS | OURS
FASTEST = "ce_afl"  # of the rivals, Secs. 5.2.1, 5.2.2: the one whose seconds are printed


def at(runs: tuple[PlannedRun, ...], dataset: str, setting: str, *points: str) -> tuple[PlannedRun, ...]:
    """The runs of a setting under the names of points on their curves: a target or an instant that the text quotes."""
    return tuple(run for point in points for run in same(runs, f"{setting};{point}", dataset=dataset, setting=setting))


SIMULATED = {f"degree-{d};simulation": f"partition.degree={d} devices=simulation" for d in (1, 2, 3, 4)}
curves = table(DATASETS, SIMULATED, METHODS)
degrees = Sweep(
    name="fedlc/degrees",
    source="Figs. 2-6, Secs. 5.2.1-5.2.3: test accuracy over time in simulation under degree-1 to degree-4 (p = 1.0, "
    "0.8, 0.4, 0.2). Targets and instants of the text are points on these curves",
    goal="best",
    covers=("Sec. 5.2.1", "Sec. 5.2.2", "Sec. 5.2.3"),
    runs=curves
    + at(curves, "cifar10", "degree-1;simulation", "target=0.6", "target=0.61")
    + at(curves, "emnist_byclass", "degree-1;simulation", "target=0.6", "target=0.62")
    + at(curves, "image100", "degree-1;simulation", "target=0.4", "target=0.36", "t=1000s", "t=891s")
    + at(curves, "emnist_byclass", "degree-3;simulation", "t=681s", "target=0.8")
    + at(curves, "image100", "degree-2;simulation", "target=0.36")
    + at(curves, "image100", "degree-4;simulation", "target=0.4"),
)

LEVELS = {f"level-{n};testbed": f"devices=level{n}" for n in (1, 2, 3)}
tested = table(DATASETS, LEVELS, METHODS)
levels = Sweep(
    name="fedlc/levels",
    source="Figs. 7-9, Sec. 5.3.1: test accuracy over time on the testbed at level-1 to level-3 (fastest and slowest "
    "device 5, 10, 30 times apart); the degree is not stated, degree-1 is ours",
    goal="best",
    covers=("Sec. 5.3.1",),
    runs=tested
    + at(tested, "emnist_byclass", "level-3;testbed", "t=2349s")
    + at(tested, "image100", "level-1;testbed", "t=3000s"),
)

COUNTS = (15, 20, 30, 40, 50)
BUDGETS = {1: 2500, 2: 3200, 3: 4500}  # seconds per level, Sec. 5.3.2
AT_LEVEL = {
    f"level-{k};testbed;N={n};t={seconds}s": f"devices=level{k} clients={n} cohort={n} virtual_seconds={seconds}"
    for k, seconds in BUDGETS.items()
    for n in COUNTS
}
counted = table(CIFAR, AT_LEVEL, METHODS)
devices = Sweep(
    name="fedlc/devices",
    source='Fig. 10, Sec. 5.3.2: "various quantities of Jetson devices (from 15 to 50)" with "2,500s, 3,200s and '
    '4,500s for level-1, level-2 and level-3" on CIFAR-10. Virtual seconds are not calibrated: compare methods only',
    goal="best",
    covers=("Sec. 5.3.2",),
    runs=counted
    + tuple(
        run
        for setting in AT_LEVEL
        for run in same(counted, setting.partition(";N=")[0], setting=setting)  # "the optimal test accuracies" over N
    ),
)

traffic = Sweep(
    name="fedlc/traffic",
    source='Fig. 11, Sec. 5.3.3: "accumulated network traffic when different methods achieve the same test accuracy", '
    "0.3 in the text; level-1 and degree-1 are ours",
    goal="rounds_to_target",
    covers=("Sec. 5.3.3",),
    runs=table(DATASETS, {"testbed;target=0.3": "devices=level1 target=0.3"}, METHODS),
)

LOSSY = {"cifar10": 2500, "emnist_byclass": 2500, "image100": 3000}  # seconds, Sec. 5.3.4
DROP = "level-1;testbed;drop=0.1"
lossy = tuple(
    run
    for dataset, seconds in LOSSY.items()
    for run in table(
        {dataset: DATASETS[dataset]},
        {DROP: f"devices=level1 devices.loss=0.1 virtual_seconds={seconds}"},
        {"fedlc": "algo=fedlc", "fedlc_t": "algo=fedlc_t"},
    )
)
loss = Sweep(
    name="fedlc/loss",
    source='Fig. 12, Sec. 5.3.4: FedLC and FedLC-T "under poor network conditions", drop 0.1, "2,500s, 2,500s and '
    '3,000s for CIFAR-10, EMNIST and IMAGE-100"; degree-1 is ours',
    covers=("Sec. 5.3.4",),
    runs=lossy + at(lossy, "cifar10", DROP, "t=1700s"),
)

budgets = Sweep(
    name="fedlc/budgets",
    source="Alg. 1 (LOCALCOL): the budgets C_i/c and B_j/b have no values in the paper; ours, up to N - 1 = 19",
    goal="best",
    runs=table(
        CIFAR,
        {f"C={c};B={b}": f"algo.compute_budget={c} algo.link_budget={b}" for c in LIMITS for b in LIMITS},
        {"fedlc": "algo=fedlc"},
    ),
)

RATE = 0.003  # Table 3, CIFAR-10
TIMES = (1, 2, 5, 10)
equal_rate = Sweep(
    name="fedlc/equal_rate",
    source="Ours: Theorem 1's rate, even clamped to 10 times the configured one, may be larger than the rivals'. The "
    "rivals at 1, 2, 5 and 10 times the rate: the row next to FedLC's mean applied rate (in its record) is the fair"
    " one",
    goal="best",
    runs=table(CIFAR, {f"rate x{k}": f"lr={round(k * RATE, 6)}" for k in TIMES}, RIVALS)
    + table(CIFAR, {"rate x1": f"lr={RATE}"}, OURS),
)

FIRST = tuple(
    run
    for run in curves
    if (run.dataset, run.setting) == ("cifar10", "degree-1;simulation") and run.method in (*OURS, FASTEST)
)
LISTED = tuple(  # as whom LOCALCOL chooses stood when the others were asked
    replace(run, overrides=merged(run.overrides, *LOCALCOL.readings[0].words)) if run.method in OURS else run
    for run in FIRST
)
readings = Sweep(
    name="fedlc/readings",
    source="What the paper leaves open, on calibration seeds, CIFAR-10, degree-1, with the baseline whose seconds are "
    "printed there: what a dispatch trains (decided by that baseline; FedLC's and SC-FedLC's runs stand beside it), "
    "Theorem 1's rate, whom LOCALCOL chooses",
    covers=("Sec. 5.2.1", "Sec. 5.2.2", "Sec. 5.2.3"),
    runs=tuple(
        dict.fromkeys(
            each([run for run in FIRST if run.method == FASTEST], DISPATCH)
            + each([run for run in each(LISTED, RATE_OF) if {*RATE_OF.readings[0].words} <= {*run.overrides}], DISPATCH)
            + asked_one_by_one(LISTED, RATE_OF)
            + asked_one_by_one(FIRST, LOCALCOL)  # with Eq. (40)'s k no budget is ever drawn on
        )
    ),
    goal="rounds_to_target",
    seeds=CHOOSING,
)


def small(lr: float, normalise: bool = True, momentum: float = 0) -> str:
    own = {"lr": lr, "normalise": str(normalise).lower(), "momentum": momentum}
    return " ".join(["dataset.resize=16 rounds=300 eval_every=5", *(f"{key}={value}" for key, value in own.items())])


NARROW = "dataset.resize=16 model.width=0.125 model.dropout=0 local_unit=epoch epochs=1 rounds=100 eval_every=5"
SCALED = (
    Scaled(
        dataset="cifar10",
        target=0.6,
        points={f"rate {lr}": small(lr) for lr in (0.003, 0.01, 0.03, 0.1, 0.3, 1)}  # 0.003 in Table 3
        | {f"rate {lr}, momentum": small(lr, momentum=0.9) for lr in (0.003, 0.01, 0.03)}
        | {f"rate {lr}, not normalised": small(lr, normalise=False) for lr in (0.03, 0.1, 0.3)},
        tenfold=True,
        chosen="rate 0.03",
    ),
    Scaled(
        dataset="emnist",
        target=0.8,
        points=rates(NARROW, (0.01, 0.03, 0.1, 0.3, 1), momentum=(0.003, 0.01, 0.03, 0.1)),
        tenfold=True,
    ),
)
scale, target = calibrated(
    "fedlc",
    SCALED,
    "16 pixels; AlexNet with an eighth of its channels and no dropout; the rate, normalisation and momentum, of which "
    "the paper gives the first",
)

SWEEPS = (degrees, levels, devices, traffic, loss, budgets, equal_rate, readings, scale, target)
