"""The same work in other simulators: pfl-research and Flower. Runs in an environment of their own, without fedbench:
`python peers.py pfl|flower`, as bench/speed/processes.py starts it.

The environment describes the work; every line of standard input asks for a round, which is answered with its seconds
in a line of JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from functools import cache
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor, nn

SPEC = "FEDBENCH_PEER_SPEC"  # the environment also reaches the processes that a simulator starts
ALWAYS = 10**6  # rounds


class Controls:
    """Asks of and answers to who started this; what the simulators print goes elsewhere."""

    def __init__(self) -> None:
        self.answers: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.begin = 0.0

    def wait(self) -> None:
        if not sys.stdin.readline():
            os._exit(0)
        self.begin = time.perf_counter()

    def answer(self) -> None:
        print(json.dumps({"seconds": time.perf_counter() - self.begin}), file=self.answers, flush=True)


class Net(nn.Module):
    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        self.net = nn.Sequential(*(getattr(nn, name)(*arguments) for name, *arguments in spec["layers"]))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.net(x.float() * (1 / 255)), y)


@cache
def spec() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.environ[SPEC])
    return found


@cache
def device_data(client: int) -> tuple[Tensor, Tensor]:
    """A device's samples, once for each of its passes: a pass over all of it takes the steps it is to take."""
    per_client = spec()["samples"]
    rng = np.random.default_rng(client)
    x = torch.from_numpy(rng.integers(0, 256, (per_client, *spec()["shape"]), dtype=np.uint8))
    y = torch.from_numpy(rng.integers(0, spec()["classes"], per_client))
    times = spec()["passes"][client]
    return x.repeat(times, *[1] * (x.dim() - 1)), y.repeat(times)


def shuffled(client: int) -> tuple[Tensor, Tensor]:
    x, y = device_data(client)
    order = torch.randperm(len(y))
    return x[order], y[order]


def pfl(controls: Controls) -> None:
    """One process, or as many as torchrun started."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class PflNet(Net):
        def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
            return {}

    class Pause(TrainingProcessCallback):
        def on_train_begin(self, *, model: Any) -> Any:
            self._next()
            return Metrics()

        def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
            if rank == 0:
                controls.answer()
            self._next()
            return False, Metrics()

        def _next(self) -> None:
            if rank == 0:
                controls.wait()
            if torch.distributed.is_initialized():
                torch.distributed.barrier()

    rank, clients = int(os.environ.get("RANK", 0)), len(spec()["passes"])
    module = PflNet(spec())
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    users = itertools.cycle(range(clients))
    data = FederatedDataset(lambda client: Dataset(raw_data=list(shuffled(client))), lambda: next(users))
    local = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=spec()["lr"], local_batch_size=spec()["batch_size"]
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=ALWAYS, evaluation_frequency=ALWAYS, train_cohort_size=clients, val_cohort_size=0
        ),
        SimulatedBackend(training_data=data, val_data=data),
        model,
        local,
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[Pause()],
    )


def train_message(message: Any, context: Any) -> Any:
    """A Flower client: the model out of the message, its device's steps, and back."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    torch.set_num_threads(1)
    net = Net(spec())
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = shuffled(int(context.node_config["partition-id"]))
    optimiser = torch.optim.SGD(net.parameters(), lr=spec()["lr"])
    size = spec()["batch_size"]
    for first in range(0, len(y), size):
        optimiser.zero_grad()
        net.loss(x[first : first + size], y[first : first + size]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)


def flower(controls: Controls) -> None:
    from flwr.app import ArrayRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    class Paused(FedAvg):
        def configure_train(self, *args: Any) -> Any:
            controls.wait()
            return super().configure_train(*args)

        def aggregate_train(self, *args: Any) -> Any:
            found = super().aggregate_train(*args)
            controls.answer()
            return found

    clients, server = ClientApp(), ServerApp()
    clients.train()(train_message)
    count = len(spec()["passes"])

    @server.main()
    def main(grid: Any, context: Any) -> None:
        strategy = Paused(fraction_evaluate=0.0, min_train_nodes=count, min_available_nodes=count)
        strategy.start(grid=grid, initial_arrays=ArrayRecord(Net(spec()).state_dict()), num_rounds=ALWAYS, timeout=1e6)

    resources = {"num_cpus": 1, "num_gpus": 0.0}
    run_simulation(server, clients, num_supernodes=count, backend_config={"client_resources": resources})


def main() -> None:
    controls = Controls()
    torch.set_num_threads(1)
    {"pfl": pfl, "flower": flower}[sys.argv[1]](controls)


if __name__ == "__main__":
    import peers  # type: ignore[import-not-found]  # so that the processes of a simulator find its functions by name

    peers.main()
