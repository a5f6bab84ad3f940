"""engine=auto: which engine suits a model and the sizes of a run; the algorithm has no say in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from bench import compiled
from bench.engine import structure
from bench.engine.base import Engine
from bench.engine.conv import Convolutional
from bench.engine.dense import Dense
from bench.engine.eager import Eager
from bench.engine.native import Native, unfit
from bench.engine.spectral import Spectral
from bench.engine.vmap import Vmap, stack_size
from bench.errors import UserError
from bench.learning.batches import Batches
from bench.learning.flat import Layout

LEAST_STACK = 8  # smaller stacks of devices are no faster than one after the other (measured: 1.3 to 5 times from here)
LEAST_STEPS = 3000  # the first vmap of a process imports 800 modules of torch, which takes seconds
LARGE = 2**19  # numbers in the kernels of a convolution from which on torch's is faster than ours (measured)
IMAGES = (nn.Conv2d, nn.MaxPool2d, nn.AdaptiveAvgPool2d)
PLAIN = "trains by plain SGD only"
Make = Callable[[nn.Module, Layout, Batches], Engine]


@dataclass(frozen=True)
class Work:
    """What a run has to do."""

    together: int  # devices that may be trained in one call
    steps: int  # local steps of all devices in all rounds
    beyond: str | None = None  # what it asks for beside plain SGD, as on the command line


def engine(name: str, module: nn.Module, layout: Layout, batches: Batches, work: Work) -> tuple[Engine, str]:
    """The engine that was asked for or, with `auto`, the one that suits; and why it was taken."""
    asked: dict[str, Make] = {"eager": Eager, "chain": chain, "native": native, "vmap": Vmap}
    if name in asked:
        made = asked[name](module, layout, batches)
        if not _takes(made, work):
            raise UserError(f"engine={name} {PLAIN}, not with {work.beyond}. Take engine=auto, which can.")
        return made, "as asked"
    layers = structure.chain(module)
    if not isinstance(layers, str):
        made, why = _fastest(module, layout, batches, work)
        if _takes(made, work):
            return made, why
    why = f"no chain, since {layers}" if isinstance(layers, str) else f"not {made.name}, which {PLAIN}"
    if reason := _not_stacked(layout, batches, work):
        return Eager(module, layout, batches), f"{why}; {reason}"
    try:
        stacked = Vmap(module, layout, batches)
    except UserError as error:
        return Eager(module, layout, batches), f"{why}; {_why(error)}"
    return stacked, f"{why}, but small enough to train {stacked.stack} devices at once"


def chain(module: nn.Module, layout: Layout, batches: Batches) -> Engine:
    layers = structure.chain(module)
    if isinstance(layers, str):
        raise UserError(f"engine=chain cannot train this model: {layers}. Take engine=auto, which finds one that can.")
    suited = Convolutional if any(isinstance(layer, IMAGES) for layer in layers) else Dense
    return suited(module, layout, batches)


def native(module: nn.Module, layout: Layout, batches: Batches) -> Engine:
    missing = compiled.library()
    if reason := unfit(module, batches) or (missing if isinstance(missing, str) else None):
        raise UserError(f"engine=native cannot train this model: {reason}. Take engine=auto, which finds one that can.")
    return Native(module, layout, batches)


def _fastest(module: nn.Module, layout: Layout, batches: Batches, work: Work) -> tuple[Engine, str]:
    """Of the two engines for chains. Measured: C takes 0.3 to 0.8 times as long, unless there are spectra."""
    why, missing = "the model is a chain of known layers", compiled.library()
    made = chain(module, layout, batches)
    if unfit(module, batches) or (made.optimizers and not _plain(work)):
        return made, why
    if isinstance(missing, str):
        return made, f"{why}; native would be faster, but {missing}"
    if isinstance(made, Convolutional):
        if any(isinstance(layer, Spectral) for layer in made.layers):
            return made, f"{why}, and spectra spare more arithmetic than native saves"
        if any(isinstance(layer, nn.Conv2d) and layer.weight.numel() > LARGE for layer in module.modules()):
            return made, f"{why}, with convolutions so large that torch's are faster than native's"
        return Native(module, layout, batches), f"{why}, and all of them are in C"
    return Native(module, layout, batches), "the model is a row of linear layers"


def _plain(work: Work) -> bool:
    return work.beyond is None


def _takes(made: Engine, work: Work) -> bool:
    return made.optimizers or _plain(work)


def _not_stacked(layout: Layout, batches: Batches, work: Work) -> str | None:
    stack = stack_size(layout, batches)
    if stack < LEAST_STACK:
        return f"its models and batches are too large or too few to train {LEAST_STACK} devices at once"
    if 2 * work.together < stack:
        return f"too few devices train together ({work.together})"
    if work.steps < LEAST_STEPS:
        return f"{work.steps} local steps are too few for vmap to pay"
    return None


def _why(error: UserError) -> str:
    """The reason in a refusal of engine=vmap."""
    return str(error).partition(": ")[2].partition(". Take")[0]
