"""Fed2A, Electronics 2022, 11, 1393: Table 4 with Figures 5 to 7, and the three distances of Eqs. 7 to 9."""

from __future__ import annotations

from functools import partial

from sweeps.plan import PlannedRun, Sweep, cells

R, P = 300, 10  # Sec. 4.1
DATASETS = ("fmnist", "cifar10", "gtsrb")
DEPTH = {"fmnist": 7, "cifar10": 8, "gtsrb": 8}  # D of Fed2A itself, Sec. 4.2
PAPER = f"R={R}"
table = partial(cells, "fed2a")

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
    """Table 4's column of one data set, then our two other readings of it."""
    fed2a = whole(dataset)
    stored = {name: words for name, words in BASELINES.items() if name != "fedasync"}  # it has no buffer to store for
    return (
        table((dataset,), {PAPER: ""}, BASELINES | PLU | TVW)
        + table((dataset,), {PAPER: "algo.stimuli=test"}, RCE | fed2a)
        + table((dataset,), {f"{PAPER};stimuli=train": "algo.stimuli=train"}, RCE | fed2a)
        + table((dataset,), {f"{PAPER};cached": "aggregation=cached"}, stored | PLU | TVW)
        + table((dataset,), {f"{PAPER};cached": "aggregation=cached algo.stimuli=test"}, RCE | fed2a)
    )


table4 = Sweep(
    name="fed2a/table4",
    source="Table 4, Secs. 4.2-4.4, with the curves of Figures 5 and 6 and the costs of Figure 7: baselines, PLU(300, "
    "10, D), TVW, RCE, Fed2A. Ours: D = 10, stimuli from the training set (the paper's are test images), and `cached`, "
    "the mean over all clients' last models as in the author's later scripts",
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

SWEEPS = (table4, distances)
