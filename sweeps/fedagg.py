"""FedAgg, arXiv 2303.15799: Tables III, V and VI, Fig. 12, and the control at an equal rate."""

from __future__ import annotations

from functools import partial

from sweeps.plan import PlannedRun, Sweep, cells, grid

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
ETA_S = (0.01, 0.03, 0.1)  # the server's rate, which the paper does not give
METHODS: dict[str, str | tuple[str, ...]] = {
    "fedavg": "algo=fedavg",
    "fedadam": grid("algo=fedadam algo.beta1=0.9 algo.beta2=0.99 algo.tau=0.001", "algo.eta_s", *ETA_S),
    "fedprox": "algo=fedprox algo.mu=0.01",
    "feddyn": "algo=feddyn algo.alpha=0.01",
    "fedbabu": "algo=fedbabu",
    "fedgh": "algo=fedgh",
    "fedagg": "algo=fedagg algo.alpha=0.1",
}
ADAPTIVE: dict[str, str | tuple[str, ...]] = {
    "fedavg": METHODS["fedavg"],
    "fedadam": METHODS["fedadam"],
    "fedadagrad": grid("algo=fedadagrad", "algo.eta_s", *ETA_S),
    "fedyogi": grid("algo=fedyogi", "algo.eta_s", *ETA_S),
    "fedagg": METHODS["fedagg"],
}


def blocks(methods: dict[str, str | tuple[str, ...]], shares: tuple[int, ...]) -> tuple[PlannedRun, ...]:
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
    "settings of Table IV; with Figs. 5-9. Ours: three server rates for FedAdam, whose own is not given; images not "
    "normalised",
    covers=("Table III",),
    runs=blocks(METHODS, (20, 100)),
)

table5 = Sweep(
    name="fedagg/table5",
    source='Table V, Sec. VI-B3: "Comparison to other adaptive FL algorithms", 20 % of the clients; with Fig. 10. '
    "Ours: three server rates for each of FedAdam, FedAdagrad and FedYogi",
    covers=("Table V",),
    runs=blocks(ADAPTIVE, (20,)),
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
    runs=table(
        ("mnist",),
        {f"{name};alpha={alpha}": f"{words} algo.alpha={alpha}" for name, words in MNIST.items() for alpha in ALPHAS},
        {"fedagg": "algo=fedagg"},
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

SWEEPS = (table3, table5, table6, fig12, equal_rate)
