"""Fed2A, Electronics 2022, 11, 1393: Table 4 with Figures 5 to 7, the distances of Eqs. 7 to 9, what it leaves open."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

from sweeps.plan import PlannedRun, Sweep, cells, merged
from sweeps.readings import CHOOSING, Open, Reading, asked_one_by_one, each
from sweeps.scaled import Scaled, calibrated

R, P = 300, 10  # Sec. 4.1
DATASETS = ("fmnist", "cifar10", "gtsrb")
DEPTH = {"fmnist": 7, "cifar10": 8, "gtsrb": 8}  # D of Fed2A itself, Sec. 4.2
PAPER = f"R={R}"
table = partial(cells, "fed2a")

SCRIPTS = "the first author's later scripts (AiFed)"
WAITS = {
    "null": ("asynchronous", 'l. 167: "continuously receive", then "a certain number of updates are received".'),
    "sync": ("synchronous", 'l. 300: FedAvg "selects a fraction of clients as participants in a global round".'),
}
AVERAGES = {
    "arrived": ("those who arrived", 'l. 130: K, "the total local models received in a global round".'),
    "cached": ("every device's last model", f"Ours: {SCRIPTS}; without it PLU(300, 10, 9) would not equal FedAvg."),
}
PERIOD = {
    "download": ("the round of its download", "l. 143: a device knows the round t_k whose model it received."),
    "upload": ("the round of its upload", 'l. 249: "Deep layers are uploaded in the last D rounds".'),
}
KEPT = {
    "replaced": ("replaced by the next download", 'l. 167: "the updated global model is broadcasted to the clients".'),
    "kept": ("kept", 'l. 182: deep layers "extract ad hoc features closely related to specific data distribution".'),
}
DATED = {
    "download": ("", "l. 143: w_{t_k} is received in round t_k."),
    "upload": (", dated by its upload", "Alg. 1, l. 3: t_k is taken after training."),
}


def server(about: str, *methods: str, dated: bool) -> Open:
    """Only stored models have two dates."""
    ways = [(how, "download") for how in AVERAGES] + [("cached", "upload")] * dated
    return Open(
        about=about,
        methods=methods,
        datasets=("*",),
        readings=tuple(
            Reading(
                f"{WAITS[schedule][0]}, {AVERAGES[how][0]}{DATED[date][0]}",
                f"schedule={schedule} aggregation={how}" + f" algo.t_k={date}" * dated,
                " ".join([WAITS[schedule][1], AVERAGES[how][1], *[DATED[date][1]] * dated]),
                "Table 4 compares with FedAvg by rounds, as if all had the same server.",
            )
            for schedule, (how, date) in product(WAITS, ways)
        ),
        chosen="synchronous, those who arrived",
        sweep="fed2a/readings",
        scale="cpu",
    )


SERVER = server("the server of PLU and RCE: whom it waits for, what it averages", "rce", "plu(*", dated=False)
DATED_SERVER = server(
    "the server of Fed2A and TVW: whom it waits for, what it averages, t_k", "fed2a", "tvw-*", dated=True
)
BASELINE_SERVER = Open(
    about="what the server of FedAvg and FedProx averages",
    methods=("fedavg", "fedprox"),
    datasets=("*",),
    readings=tuple(
        Reading(name, f"aggregation={aggregation}", source, "Each is how somebody runs it.")
        for aggregation, (name, source) in AVERAGES.items()
    ),
    chosen="those who arrived",
    sweep="fed2a/readings",
    scale="cpu",
)
UPLOADS = Open(
    about="PLU: which round a device counts by, and what becomes of the deep layers that it did not upload",
    methods=("fed2a", "plu(*"),
    datasets=("*",),
    readings=tuple(
        Reading(
            f"{PERIOD[plu][0]}, {KEPT[unsent][0]}",
            f"algo.plu={plu} algo.unsent={unsent}",
            f"{PERIOD[plu][1]} {KEPT[unsent][1]}",
            "The paper has one round at a time, an asynchronous device several.",
        )
        for plu, unsent in product(PERIOD, KEPT)
    ),
    chosen="the round of its download, replaced by the next download",
    sweep="fed2a/readings",
    scale="cpu",
)
EPOCHS = Open(
    about="the local epochs",
    methods=("*",),
    datasets=("*",),
    readings=(
        Reading("two epochs", "epochs=2", "Ours: none are given.", f"As in {SCRIPTS}."),
        Reading("one epoch", "epochs=1", "Ours: none are given.", "The least work a round."),
        Reading("five epochs", "epochs=5", "Ours: none are given.", "As in FedAvg's paper."),
    ),
    chosen="two epochs",
)


def at_work(about: str, words: str, *methods: str) -> Open:
    sizes = {6: f"A fifth of 30, as in {SCRIPTS}.", 3: "A tenth, as in FedAvg's paper.", 15: "Half of the devices."}
    return Open(
        about=about,
        methods=methods,
        datasets=("*",),
        readings=tuple(
            Reading(f"K = {k}", words.format(k=k), 'l. 300: "a fraction of clients"; none is given.', why)
            for k, why in sizes.items()
        ),
        chosen="K = 6",
    )


COHORT = at_work(  # with a server that waits for them
    "how many take part in a round", "cohort={k}", *("fedavg", "fedprox", "fed2a", "rce", "plu(*", "tvw-*")
)
BUFFER = at_work("how many arrivals are a round", "cohort={k} arrivals_per_round={k}", "fedasync")
MIXING = Open(
    about="FedAsync's alpha",
    methods=("fedasync",),
    datasets=("*",),
    readings=(
        Reading(
            "alpha = 0.6", "algo.alpha=0.6", 'l. 302: "a mixed hyperparameter alpha", no value.', "FedAsync's own."
        ),
        Reading("alpha = 1", "algo.alpha=1", 'l. 302: "a mixed hyperparameter alpha", no value.', f"As in {SCRIPTS}."),
    ),
    chosen="alpha = 0.6",
    sweep="fed2a/readings",
    scale="cpu",
)
OPEN = (SERVER, DATED_SERVER, BASELINE_SERVER, UPLOADS, EPOCHS, COHORT, BUFFER, MIXING)

# Each strategy alone: D = P sends everything, tvw=none weighs by the number of samples.
BASELINES = {
    "fedavg": "algo=fedavg",
    "fedprox": "algo=fedprox algo.mu=1",
    "fedasync": "algo=fedasync algo.staleness=poly algo.p=0.5 algo.mu=1",
}
PLU = {f"plu({R},{P},{d})": f"algo=fed2a algo.P={P} algo.D={d} algo.tvw=none algo.rce=false" for d in range(1, 11)}
TVW = {f"tvw-{f}": f"algo=fed2a algo.P={P} algo.D={P} algo.tvw={f} algo.rce=false" for f in ("exp", "inv", "log")}
RCE = {"rce": f"algo=fed2a algo.P={P} algo.D={P} algo.tvw=none algo.rce=true algo.distance=cosine"}


def whole(dataset: str) -> dict[str, str]:
    strategy = f"algo.P={P} algo.D={DEPTH[dataset]} algo.tvw=inv algo.rce=true algo.distance=cosine"
    return {"fed2a": f"algo=fed2a {strategy}"}


def rows(dataset: str) -> tuple[PlannedRun, ...]:
    """Table 4's column of one data set, then without test images."""
    fed2a = whole(dataset)
    return (
        table((dataset,), {PAPER: ""}, BASELINES | PLU | TVW)
        + table((dataset,), {PAPER: "algo.stimuli=test"}, RCE | fed2a)
        + table((dataset,), {f"{PAPER};stimuli=train": "algo.stimuli=train"}, RCE | fed2a)
    )


table4 = Sweep(
    name="fed2a/table4",
    source="Table 4, Secs. 4.2-4.4, with the curves of Figures 5 and 6 and the costs of Figure 7: baselines, PLU(300, "
    "10, D), TVW, RCE, Fed2A. Ours: D = 10, and stimuli from the training set (the paper's are test images)",
    covers=("Table 4", "Fig. 7 caption", "Sec. 1", "Sec. 4.2", "Sec. 4.3", "Sec. 4.4"),
    runs=tuple(run for dataset in DATASETS for run in rows(dataset)),
)

distances = Sweep(
    name="fed2a/distances",
    source='Eqs. 7-9, Sec. 3.3.3: "the correlation distance (Formula (7)), cosine distance (Formula (8)), or Euclidean '
    'distance (Formula (9))"; Sec. 4.3: "We use cosine distance for computation convenience". The paper runs no other',
    runs=tuple(
        run
        for dataset in DATASETS
        for distance in ("cosine", "correlation", "euclidean")
        for run in table(
            (dataset,),
            {f"{PAPER};distance={distance}": "algo.stimuli=test"},
            {
                name: words.replace("distance=cosine", f"distance={distance}")
                for name, words in (RCE | whole(dataset)).items()
            },
        )
    ),
)

KINDS = {*BASELINES, f"plu({R},{P},8)", "tvw-inv", "rce", "fed2a"}  # one of each
PRINTED = tuple(run for run in table4.runs if run.setting == PAPER and run.method in KINDS)
APART = tuple(  # where nobody waits, a device has several rounds at a time
    replace(run, overrides=merged(run.overrides, *server.readings[0].words))
    for server in (SERVER, DATED_SERVER)
    for run in PRINTED
    if server.covers(run.method, run.dataset)
)
readings = Sweep(
    name="fed2a/readings",
    source="What the paper leaves open of a method, one question at a time, on calibration seeds: whom the server waits"
    " for and what it averages, PLU's rounds (with a server that waits and with one that does not), t_k, FedAsync's "
    "alpha; the baselines and one strategy of each kind",
    covers=("Table 4",),
    runs=tuple(
        dict.fromkeys(
            asked_one_by_one(PRINTED, SERVER, DATED_SERVER, BASELINE_SERVER, UPLOADS, MIXING)
            + asked_one_by_one(APART, UPLOADS)
        )
    ),
    seeds=CHOOSING,
)
calibration = Sweep(
    name="fed2a/calibration",
    source="What the paper leaves open of every run, on calibration seeds, by FedAvg alone: the local epochs and K",
    covers=("Table 4",),
    runs=each((run for run in PRINTED if run.method == "fedavg"), EPOCHS, COHORT),
    seeds=CHOOSING,
)


def small(pixels: int, lr: float, overlap: bool = False, normalise: bool = True, **more: float) -> str:
    network = f"dataset.resize={pixels} model.width=1 model.channels=[8,16] model.hidden=[128,256]"
    own = {"lr": lr, "normalise": str(normalise).lower(), "partition.overlap": str(overlap).lower()}
    keys = {"rounds": R, "eval_every": 5, **own, "momentum": 0, "batch_size": 48, "epochs": 2, **more}
    return " ".join([network, *(f"{key}={value}" for key, value in keys.items())])


def rates(pixels: int) -> dict[str, str]:
    return {
        f"rate {lr}{', overlap' if overlap else ''}": small(pixels, lr, overlap)
        for overlap in (False, True)
        for lr in (0.01, 0.03, 0.1)
    } | {
        "rate 0.03, not normalised": small(pixels, 0.03, normalise=False),
        "rate 0.03, one epoch": small(pixels, 0.03, epochs=1),
    }


SCALED = (
    Scaled(
        dataset="gtsrb",
        target=0.85,
        share=265 / R,
        printed=0.8630,
        points={
            "rate 0.05": small(16, 0.05),
            "rate 0.02": small(16, 0.02),
            "rate 0.1": small(16, 0.1),
            "rate 0.05, overlap": small(16, 0.05, overlap=True),
            "rate 0.02, overlap": small(16, 0.02, overlap=True),
            "rate 0.05, one epoch": small(16, 0.05, epochs=1),
            "rate 0.05, batches of 24": small(16, 0.05, batch_size=24),
            "rate 0.005, momentum": small(16, 0.005, momentum=0.9),
            "rate 0.05, not normalised": small(16, 0.05, normalise=False),
        },
        chosen="rate 0.05, batches of 24",
    ),
    Scaled(dataset="fmnist", target=0.65, share=94 / R, printed=0.6991, points=rates(14), chosen="rate 0.1"),
    Scaled(dataset="cifar10", target=0.35, share=97 / R, printed=0.3808, points=rates(16), chosen="rate 0.03"),
)
scale, target = calibrated(
    "fed2a",
    SCALED,
    "few pixels, a small network, and the rate, overlap, normalisation, momentum, batch size and epochs that the paper"
    " does not give",
)


def fewer(fraction: float, **others: str) -> dict[str, str]:
    """FedAvg with the largest numbers alone, and with others."""
    topk = f"topk upload.fraction={fraction}"
    ways = {"topk": topk, "topk without feedback": f"{topk} upload.error_feedback=false", **others}
    return {f"fedavg, {name}": f"algo=fedavg upload={words}" for name, words in ways.items()}


PLU_2, PLU_1 = (f"plu({R},{P},{d})" for d in (2, 1))
BOTH = {"topk+quantise": "topk+quantise upload.fraction=0.5597 upload.bits=8"}
BYTES = {  # of what everything in every round is at scale=cpu, 300 times 80,795 numbers; bits are whole, the nearest
    "82 %": fewer(0.7845),  # as PLU(300, 10, 8), which is in table4
    "26 %": {PLU_2: PLU[PLU_2], **fewer(0.232, quantise="quantise upload.bits=8")},
    "17 %": {PLU_1: PLU[PLU_1], **fewer(0.1399, quantise="quantise upload.bits=5", **BOTH)},
}
uploads = Sweep(
    name="fed2a/uploads",
    source="Ours: beside FedAvg and PLU(300, 10, 8) of fed2a/table4 at scale=cpu, Sec. 3.3.1's partial upload against "
    "the largest numbers and fewer bits, at as many bytes",
    runs=tuple(
        replace(run, overrides=merged(run.overrides, "scale=cpu"))
        for share, methods in BYTES.items()
        for run in table(("gtsrb",), {f"{PAPER};scale=cpu;bytes={share}": ""}, methods)
    ),
)

SWEEPS = (table4, distances, readings, calibration, scale, target, uploads)
