"""What the engines are compared with: a plain loop, a Lightning Trainer per device, and bare matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from bench.speed.work import LR, Data, Round, Workload

# trains the net on one device's x and y for so many passes
TrainLocally = Callable[[nn.Module, Tensor, Tensor, int], None]


def averaged(load: Workload, data: Data, local: TrainLocally, net: nn.Module) -> Round:
    """The loop everyone writes first: each device from the same start, the parameters averaged."""
    pools = [(data.x[index], data.y[index]) for index in data.clients]

    def run() -> None:
        start = [p.detach().clone() for p in net.parameters()]
        total = [torch.zeros_like(p) for p in start]
        for client, (x, y) in enumerate(pools):
            with torch.no_grad():
                for p, value in zip(net.parameters(), start, strict=True):
                    p.copy_(value)
            local(net, x, y, load.passes(client))
            for t, p in zip(total, net.parameters(), strict=True):
                t += p.detach() / len(pools)
        with torch.no_grad():
            for p, t in zip(net.parameters(), total, strict=True):
                p.copy_(t)

    return Round(run)


def plain(load: Workload, data: Data, drift: bool = False) -> Round:
    """A module, torch's SGD, one thread; with `drift` a vector added to each gradient, as in SCAFFOLD."""

    def local(net: nn.Module, x: Tensor, y: Tensor, passes: int) -> None:
        optimiser = torch.optim.SGD(net.parameters(), lr=LR)
        for _ in range(passes):
            for index in torch.split(torch.randperm(len(y)), load.batch_size):
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(data.inputs(x[index])), y[index]).backward()  # type: ignore[no-untyped-call]
                if drift:
                    for p, v in zip(net.parameters(), vectors, strict=True):
                        cast(Tensor, p.grad).add_(v)
                optimiser.step()

    net = load.net()
    vectors = [torch.full_like(p, 1e-6) for p in net.parameters()]
    return averaged(load, data, local, net)


def trainer(load: Workload, data: Data) -> Round:
    """A Lightning Trainer for every device, with all that can be switched off switched off."""
    from bench.learning.module import LocalModule
    from bench.speed.trainer import fit

    def local(net: nn.Module, x: Tensor, y: Tensor, passes: int) -> None:
        fit(cast(LocalModule, net), x, y, load.batch_size, passes)

    return averaged(load, data, local, LocalModule(load.net()))


def floor(load: Workload, data: Data) -> Round:
    """The matrix products and convolutions of forward and backward passes, and nothing else."""
    net = load.net()
    products: list[Callable[[], None]] = []
    x = data.inputs(data.x[: load.batch_size])
    with torch.no_grad():
        for layer in cast(nn.Sequential, net):
            y = layer(x)
            if isinstance(layer, nn.Linear):
                products.append(_linear(x, layer.weight, y, first=not products))
            elif isinstance(layer, nn.Conv2d):
                products.append(_convolution(x, layer, y, first=not products))
            x = y

    @torch.no_grad()
    def run() -> None:
        for _ in range(load.client_steps):
            for product in products:
                product()

    return Round(run)


def _linear(x: Tensor, w: Tensor, y: Tensor, first: bool) -> Callable[[], None]:
    out, into, back = torch.empty_like(y), torch.empty_like(w), torch.empty_like(x)

    def products() -> None:
        torch.mm(x, w.T, out=out)
        torch.mm(y.T, x, out=into)
        if not first:
            torch.mm(y, w, out=back)

    return products


def _convolution(x: Tensor, layer: nn.Conv2d, y: Tensor, first: bool) -> Callable[[], None]:
    size: tuple[Any, ...] = (layer.stride, layer.padding, layer.dilation)

    def products() -> None:
        nn.functional.conv2d(x, layer.weight, None, *size)
        torch.ops.aten.convolution_backward(
            y, x, layer.weight, None, *size, False, [0, 0], layer.groups, [not first, True, False]
        )

    return products
