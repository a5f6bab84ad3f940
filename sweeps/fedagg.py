"""FedAgg, arXiv 2303.15799: Tables III, V and VI, Figs. 2 and 12, Alg. 1, its readings, a control at an equal rate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

from sweeps.plan import PlannedRun, Sweep, cells, merged
from sweeps.readings import CHOOSING, Open, Reading, each
from sweeps.scaled import Scaled, calibrated, rates

table = partial(cells, "fedagg")
SKEWS = {
    "IID": "partition=iid",
    "Dir-0.6": "partition=dirichlet partition.alpha=0.6",
    "Dir-1.0": "partition=dirichlet partition.alpha=1.0",
}
PATHOLOGICAL = {"IID": "partition=iid", "Non-IID": "partition=shards partition.per_client=2"}  # two shards a device
# the rows of Table III: data set, its overrides, the paper's name of the model, ours, its partitions
BLOCKS = (
    ("mnist", "dataset=mnist", "Linear", "linear", PATHOLOGICAL),
    ("mnist", "dataset=mnist", "MNIST-CNN", "mnist_cnn", PATHOLOGICAL),
    ("emnist_letters", "dataset=emnist", "LeNet-5", "lenet5", SKEWS),
    ("cifar10", "dataset=cifar10", "CIFAR-10-CNN", "cifar10_cnn", SKEWS),
    ("cifar100", "dataset=cifar100", "VGG-11", "vgg11", SKEWS),
)

PHI1 = {
    "sum": "Eq. (14), l. 163: w_{l+1} = w_l - eta phi1, which for an epoch of many steps needs their sum.",
    "mean": "Eq. (11), l. 154: phi1 is the mean of the devices' gradients, one for each l.",
}
SOLVED = {
    "true": ("each epoch", "Theorem 1, l. 167: eta_{i,l} follows from w_{i,l}, known when epoch l begins."),
    "false": ("once", "Alg. 2, l. 3 (l. 255): rates are calculated before the local epochs."),
}
MEAN_FIELD = {
    "history": 'Remark 1, l. 275: "obtained from the historical training process".',
    "prerun": 'Remark 1, l. 275: "Before the formal FL training, the central server precomputes the mean-field terms".',
    "fixed_point": "Alg. 1, l. 225-232: iterated until the terms change by less than a tolerance.",
}
UPDATE = {
    "own": "Alg. 2, l. 6 (l. 261): the device's own gradient.",
    "aggregated": "Eqs. (9) and (14), l. 163: the mean-field gradient.",
}
FEDAGG = Open(
    about="FedAgg's rates: phi1, when they are solved for, where the mean field comes from, what they multiply",
    methods=("fedagg",),
    datasets=("*",),
    readings=tuple(
        Reading(
            f"{phi1}, {SOLVED[feedback][0]}, {mean_field}, {update}",
            f"algo.phi1={phi1} algo.feedback={feedback} algo.mean_field={mean_field} algo.update={update}",
            " ".join([PHI1[phi1], SOLVED[feedback][1], MEAN_FIELD[mean_field], UPDATE[update]]),
            "Each of the four stands in the paper.",
        )
        for phi1, feedback, mean_field, update in product(PHI1, SOLVED, MEAN_FIELD, UPDATE)
    ),
    chosen="mean, each epoch, fixed_point, own",
    sweep="fedagg/readings",
)
SERVER_RATE = Open(
    about="the server's rate of adaptive methods",
    methods=("fedadam", "fedadagrad", "fedyogi"),
    datasets=("*",),
    readings=(
        Reading("eta_s=0.01", "algo.eta_s=0.01", "Ours: none is given.", "Table IV's rate on MNIST and CIFAR-100."),
        Reading("eta_s=0.03", "algo.eta_s=0.03", "Ours: none is given.", "Between Table IV's two."),
        Reading("eta_s=0.1", "algo.eta_s=0.1", "Ours: none is given.", "Table IV's rate on EMNIST and CIFAR-10."),
    ),
    chosen="eta_s=0.01",
    sweep="fedagg/readings",
)
NORMALISED = Open(
    about="whether MNIST's images are normalised",
    methods=("*",),
    datasets=("mnist",),
    readings=(
        Reading(
            "as they are", "normalise=false", "Ours: nothing is said.", "Divided by 255, as most tutorials have it."
        ),
        Reading(
            "normalised", "normalise=true", "Ours: nothing is said.", "By mean and deviation, as torchvision has it."
        ),
    ),
    chosen="as they are",
    sweep="fedagg/calibration",
)
OPEN = (FEDAGG, SERVER_RATE, NORMALISED)
METHODS = {
    "fedavg": "algo=fedavg",
    "fedadam": f"algo=fedadam algo.beta1=0.9 algo.beta2=0.99 algo.tau=0.001 {SERVER_RATE.words}",
    "fedprox": "algo=fedprox algo.mu=0.01",
    "feddyn": "algo=feddyn algo.alpha=0.01",
    "fedbabu": "algo=fedbabu",
    "fedgh": "algo=fedgh",
    "fedagg": f"algo=fedagg algo.alpha=0.1 {FEDAGG.words}",
}
ADAPTIVE = {
    "fedavg": METHODS["fedavg"],
    "fedadam": METHODS["fedadam"],
    "fedadagrad": f"algo=fedadagrad {SERVER_RATE.words}",
    "fedyogi": f"algo=fedyogi {SERVER_RATE.words}",
    "fedagg": METHODS["fedagg"],
}


def blocks(methods: dict[str, str], shares: tuple[int, ...]) -> tuple[PlannedRun, ...]:
    """Every block with so many per cent of 100 clients; FedBABU has no body to train in the linear model."""
    return tuple(
        run
        for dataset, words, model, option, skews in BLOCKS
        for run in table(
            {dataset: words},
            {
                f"model={model};dist={skew};participation={share}%": f"model={option} {partition} cohort={share}"
                for skew, partition in skews.items()
                for share in shares
            },
            {name: value for name, value in methods.items() if (name, model) != ("fedbabu", "Linear")},
        )
    )


table3 = Sweep(
    name="fedagg/table3",
    source='Table III, Sec. VI-B1: "Accuracy on different datasets with 20% and 100% participant ratio", 100 clients, '
    "settings of Table IV; with Figs. 5-9. Ours: the server rate of FedAdam, whose own is not given; images not "
    "normalised",
    covers=("Table III",),
    runs=blocks(METHODS, (20, 100)),
)

table5 = Sweep(
    name="fedagg/table5",
    source='Table V, Sec. VI-B3: "Comparison to other adaptive FL algorithms", 20 % of the clients; with Fig. 10. '
    "Ours: the server rate of FedAdam, FedAdagrad and FedYogi",
    covers=("Table V",),
    runs=blocks(ADAPTIVE, (20,)),
)

LINEAR = tuple(run for run in blocks(METHODS | ADAPTIVE, (20, 100)) if "model=linear" in run.overrides)
readings = Sweep(
    name="fedagg/readings",
    source="What the paper leaves open, in every reading, on calibration seeds: FedAgg's rates (Eqs. 11-15, Algs. 1 "
    "and 2, Remark 1) and the server rate of the adaptive methods; the other methods beside them. MNIST, linear model",
    covers=("Table III", "Table V"),
    runs=each(LINEAR, FEDAGG, SERVER_RATE),
    seeds=CHOOSING,
)
calibration = Sweep(
    name="fedagg/calibration",
    source="What the paper leaves open of every run, on calibration seeds, by FedAvg alone: whether MNIST's images are "
    "normalised",
    covers=("Table III", "Table V"),
    runs=each([run for run in LINEAR if run.method == "fedavg"], NORMALISED),
    seeds=CHOOSING,
)

ARCHITECTURES = {
    "LeNet-5": "lenet5",
    "AlexNet": "alexnet",
    "VGG-11": "vgg11",
    "ResNet-18": "resnet18",
    "GoogLeNet": "googlenet",
    "DenseNet121": "densenet121",
}
table6 = Sweep(
    name="fedagg/table6",
    source='Table VI, Sec. VI-B4: "Effectiveness on various local model architectures", CIFAR-10 IID, 20 %, rate 0.1, '
    "T = 100; with Fig. 11. Ours: GroupNorm where torchvision's networks have BatchNorm",
    covers=("Table VI",),
    runs=table(
        ("cifar10",),
        {
            f"model={model};dist=IID;participation=20%;lr=0.1;T=100": f"model={option} partition=iid cohort=20 lr=0.1"
            for model, option in ARCHITECTURES.items()
        },
        {"fedavg": METHODS["fedavg"], "fedagg": METHODS["fedagg"]},
    ),
)

ALPHAS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.9)
MNIST = {f"dist={skew}": f"model=linear {partition} cohort=20" for skew, partition in PATHOLOGICAL.items()}
fig12 = Sweep(
    name="fedagg/fig12",
    source='Fig. 12, Sec. VI-B5: "our FedAgg algorithm with different aggregation weights alpha on the MNIST dataset". '
    "Its alphas are not printed: ours",
    covers=("Fig. 12 text",),
    runs=table(
        ("mnist",),
        {f"{name};alpha={alpha}": f"{words} algo.alpha={alpha}" for name, words in MNIST.items() for alpha in ALPHAS},
        {"fedagg": f"algo=fedagg {FEDAGG.words}"},
    ),
)

RATES = (0.01, 0.03, 0.05, 0.1, 0.3)  # FedAgg's own mean rates were 0.052 (IID), 0.311 (shards): docs/fedagg_mnist.md
equal_rate = Sweep(
    name="fedagg/equal_rate",
    source="Ours: FedAgg's rates rise above the base rate that FedAvg keeps. FedAvg over rates from 0.01 (Table IV) to "
    "0.3: the row next to FedAgg's mean applied rate (in its record) is the fair one",
    runs=table(
        ("mnist",),
        {f"{name};eta={rate}": f"{words} lr={rate}" for name, words in MNIST.items() for rate in RATES},
        {"fedavg": METHODS["fedavg"]},
    )
    + table(
        ("mnist",),
        {f"{name};eta=0.01": f"{words} lr=0.01" for name, words in MNIST.items()},
        {"fedagg": METHODS["fedagg"]},
    ),
)

fig2 = Sweep(
    name="fedagg/fig2",
    source='Fig. 2, l. 32 and 38: "model accuracy and training loss curves on the CIFAR-100 dataset with IID data '
    'distribution and 20% client participation ratio", a fixed rate against "adaptive optimizer Adam" on the devices. '
    "No numbers are printed. VGG-11, the fixed rate and T as in Table IV; Adam's rates ours (torch's own, and a tenth "
    "of it), its beta1, beta2 and eps torch's",
    runs=table(
        ("cifar100",),
        {"dist=IID;participation=20%": "model=vgg11 partition=iid cohort=20"},
        {
            "fedavg": f"{METHODS['fedavg']} optimizer=sgd",
            **{f"fedavg, client Adam at {rate}": f"algo=fedavg optimizer=adam lr={rate}" for rate in (0.001, 0.0001)},
        },
    ),
)

alg1 = Sweep(
    name="fedagg/alg1",
    source="Alg. 1, l. 225-232, and Theorem 2: does the iteration for phi1 and phi2 end (epsilon = 0.001), after how "
    "many passes? metrics.csv has `passes`, `phi1_change` and `phi2_change` of each round. The paper sets no limit: "
    "ours is 100 passes. MNIST, linear model, 20 %",
    runs=table(
        ("mnist",),
        {
            f"{name};phi1={phi1};update={update}": f"{words} algo.phi1={phi1} algo.update={update}"
            for name, words in MNIST.items()
            for phi1, update in product(PHI1, UPDATE)
        },
        {"fedagg": f"{METHODS['fedagg']} algo.mean_field=fixed_point algo.epsilon=0.001 algo.J=100"},
    ),
)

t500 = Sweep(
    name="fedagg/t500",
    source='Sec. VI-A6, l. 397: on CIFAR-100 "global iteration T is configured as 500", where Table IV and Sec. VI-B1 '
    "have 200: Table III's block at 20 % run on to 500 rounds",
    runs=tuple(
        replace(run, setting=f"{run.setting};T=500", overrides=merged(run.overrides, "rounds=500"))
        for run in blocks(METHODS, (20,))
        if run.dataset == "cifar100"
    ),
)

HALF = "dataset.resize=16 model.width=0.5 model.dropout=0 rounds=100 eval_every=5 normalise="
EIGHTH = "model.width=0.125 rounds=100 eval_every=5 normalise="
SCALED = (
    Scaled(
        dataset="cifar10",
        points=rates(f"{HALF}true", (0.01, 0.03, 0.1, 0.3), momentum=(0.01, 0.03))  # 0.1 in Table IV
        | {f"{name}, not normalised": words for name, words in rates(f"{HALF}false", (0.03, 0.1, 0.3)).items()},
    ),
    Scaled(
        dataset="cifar100",
        points=rates(f"{EIGHTH}true", (0.01, 0.03, 0.1, 0.3), momentum=(0.01, 0.03)),  # 0.01 in Table IV
    ),
)
scale, target = calibrated(
    "fedagg",
    SCALED,
    "CIFAR-10 with 16 pixels, half the channels and no dropout, CIFAR-100 with an eighth of the channels and half the "
    "rounds; the rate, which the paper gives, normalisation and momentum",
)

SWEEPS = (table3, table5, table6, fig2, fig12, alg1, t500, equal_rate, readings, calibration, scale, target)
