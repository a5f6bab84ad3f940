"""model=custom: a LightningModule of the user's. What cannot be trained here is refused before the run, in a sentence.

Construction (`build`) and a try of its steps (`try_out`) belong to a run; `sgd` to the resolving of its config.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from bench import given, own_code, trust
from bench.errors import UserError, unknown
from bench.learning.batches import Batch

# overridden, these change what is trained, and nobody would call them here
HOOKS = (
    *("setup", "configure_model", "backward", "configure_gradient_clipping", "optimizer_step"),
    *("on_after_backward", "on_before_optimizer_step", "on_before_zero_grad", "on_train_batch_start"),
    *("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"),
)


def build(model: Mapping[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """The module, constructed with what it asks for of `shape` and `classes`, and model.args; an object as it is."""
    if given.is_name(model["target"]):
        module = copy.deepcopy(given.get(model["target"], "model"))  # its numbers are the first model's
        assert isinstance(module, nn.Module)
        base = _base(type(module))
        if base is None:  # a plain network, for the task's loss
            _check_parameters(module)
            return module
    else:
        cls, base = _class(model["target"])
        module = _construct(cls, model["args"], {"shape": shape, "classes": classes})
    _check(module, base)
    # there is no Trainer around it that would take the values, and Lightning would warn at every step
    module.log = _Ignored()  # type: ignore[assignment]
    return module


def sgd(model: Mapping[str, Any], *data: Mapping[str, Any]) -> dict[str, float]:
    """lr, momentum and weight_decay of the module's own configure_optimizers; {} where it has none. `data` are the data
    set and its task, whose sizes it may ask for."""
    if given.is_name(model["target"]):
        cls = type(given.get(model["target"], "model"))
        base = _base(cls)
    else:
        cls, base = _class(model["target"])
    if base is None or not _overrides(cls, base, "configure_optimizers"):
        return {}
    asked = {"shape", "classes"} & inspect.signature(cls).parameters.keys() - model["args"].keys()
    needed = asked and not given.is_name(model["target"])
    shape, classes = _size(json.dumps(data)) if needed else ((), 0)
    with torch.random.fork_rng(devices=[]):
        module = build(model, shape, classes)
    found = _called(module, "configure_optimizers")
    if isinstance(found, Mapping) and found.keys() == {"optimizer"}:
        found = found["optimizer"]
    if isinstance(found, list | tuple) and len(found) == 1:
        found = found[0]
    if found is None:
        return {}
    what = _not_plain(found, module)
    if what:
        raise UserError(
            f"configure_optimizers of {cls.__name__} returns {what}, but the optimiser belongs to the federated "
            f"method: return torch.optim.SGD(self.parameters(), lr, momentum, weight_decay=...) or leave it out."
        )
    group = found.param_groups[0]
    return {key: float(group[key]) for key in ("lr", "momentum", "weight_decay")}


def try_out(module: nn.Module, batch: Batch, classes: int) -> str:
    """Evaluates and takes a loss, of the batch and of one sample alone, without a step: is the loss scalar or per
    sample? A training_step that returns {"loss": ...} returns the loss itself from now on. Says what is not logged."""
    x, y = batch
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    with torch.random.fork_rng(devices=[]):
        module.eval()
        with torch.no_grad():
            logits = _called(module, "forward", x)
        shape = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        if shape != [len(y), classes]:
            raise UserError(
                f"forward of {_name(module)} gives {shape} for {len(y)} samples, but has to give "
                f"{_outputs(classes)}: [{len(y)}, {classes}]."
            )
        if not logits.is_floating_point() or not logits.isfinite().all():
            what = f"logits of {logits.dtype}" if not logits.is_floating_point() else "logits that are not finite"
            raise UserError(f"forward of {_name(module)} gives {what} for the first batch: they have to be finite.")
        module.train()
        if isinstance(_called(module, "training_step", batch, 0), Mapping):
            module.training_step = _Unpacked(module.training_step)  # type: ignore[arg-type, assignment]
        forms = [_form(module, (x[:n], y[:n])) for n in (len(y), 1)]
    for name, value in module.named_buffers():
        if name not in buffers or not torch.equal(value, buffers[name]):
            raise UserError(
                f"{_name(module)} changes its buffer {name} while it trains, which would pass from device to device "
                f"unseen by the federated method: keep no state in it but parameters."
            )
    if isinstance(module.log, _Ignored) and module.log.names:
        print(
            f"log        not kept: {', '.join(module.log.names)} of self.log; see metrics.csv for what is", flush=True
        )
    for method in ("forward", "training_step"):  # from here on, at any step
        setattr(module, method, _Told(type(module), method, getattr(module, method)))
    return forms[0]


def _outputs(classes: int) -> str:
    return "one number for each" if classes == 1 else f"one logit for each of the {classes} classes"


class _Told:
    """A method whose errors are the user's."""

    def __init__(self, cls: type, method: str, call: Callable[..., Any]) -> None:
        self.cls, self.method, self.call = cls, method, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.call(*args, **kwargs)
        except (Exception, SystemExit) as error:
            own_code.tell(self.cls, self.method, error)
            raise


def _form(module: nn.Module, batch: Batch) -> str:
    loss, samples = _called(module, "training_step", batch, 0), len(batch[1])
    name = f"training_step of {_name(module)}"
    if not isinstance(loss, Tensor):
        raise UserError(f"{name} returns {type(loss).__name__}, but has to return the loss.")
    if loss.shape not in ((), (samples,)):
        raise UserError(
            f"{name} returns a loss of shape {list(loss.shape)} for {samples} samples, but it has to be a scalar or "
            f"one number per sample, [{samples}]."
        )
    if not loss.is_floating_point() or not loss.isfinite().all():
        raise UserError(f"{name} returns a loss of {loss.dtype} that is not finite for the first batch.")
    if not loss.requires_grad:
        raise UserError(f"{name} returns a loss that does not depend on its parameters, or is detached.")
    return "per sample" if loss.dim() else "scalar"


class _Unpacked:
    def __init__(self, step: Callable[[Batch, int], Mapping[str, Any]]) -> None:
        self.step = step

    def __call__(self, batch: Batch, batch_idx: int) -> Any:
        return self.step(batch, batch_idx).get("loss")


def _class(target: str | None) -> tuple[type, type]:
    """The user's class, and the LightningModule it extends: of pytorch_lightning or of lightning."""
    if not target or "." not in target:
        given = f"not {target}" if target else "so it needs model.target"
        raise UserError(f"model=custom is a class of your own, {given}: model.target=./file.py:Class or package.Class.")
    found = trust.split(target)
    if found and not found[1]:
        module = own_code.load_file(found[0])
        mine = [c for c in vars(module).values() if _base(c) and c.__module__ == module.__name__]
        if len(mine) != 1:
            what = f"several LightningModules ({', '.join(c.__name__ for c in mine)})" if mine else "no LightningModule"
            raise UserError(f"{found[0]} defines {what}: give model.target={target}:Class.")
        cls = mine[0]
    else:
        cls = own_code.load(target)
    base = _base(cls)
    if base is None or base is cls:
        raise UserError(f"{target} is not a LightningModule: it has to extend pytorch_lightning.LightningModule.")
    return cls, base


def _base(cls: Any) -> type | None:
    for c in cls.__mro__ if inspect.isclass(cls) else ():
        if c.__name__ == "LightningModule" and c.__module__.partition(".")[0] in ("pytorch_lightning", "lightning"):
            return c
    return None


def _construct(cls: type, args: Mapping[str, Any], offered: Mapping[str, Any]) -> nn.Module:
    signature = inspect.signature(cls)
    accepted = signature.parameters
    if not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        for key in args:
            if key not in accepted:
                raise unknown(f"argument of {cls.__name__}", key, accepted, None if accepted else "it takes none")
    values = {key: value for key, value in offered.items() if key in accepted} | dict(args)
    try:
        signature.bind(**values)
    except TypeError as error:
        raise UserError(
            f"{cls.__name__}{signature} cannot be constructed: {error}; shape and classes are given to it, "
            f"the rest with model.args={{name:value}}."
        ) from None
    try:
        module: nn.Module = cls(**values)
    except (Exception, SystemExit) as error:
        raise UserError(f"{cls.__name__} cannot be constructed: {own_code.reason(error)}.") from error
    return module


def _check(module: nn.Module, base: type) -> None:
    cls, name = type(module), _name(module)
    uses = {"training_step": "training_step(batch, batch_idx) gives the loss", "forward": "forward(x) gives the logits"}
    for method, use in uses.items():
        if not _overrides(cls, base, method):
            raise UserError(f"{name} has no {method}: {use}.")
    if not getattr(module, "automatic_optimization", True):
        raise UserError(f"{name} optimises by hand, but the federated method makes the steps: return the loss instead.")
    if hooks := [hook for hook in HOOKS if _overrides(cls, base, hook)]:
        raise UserError(
            f"{name} overrides {', '.join(hooks)}, which no Trainer calls here: it would train differently."
        )
    _check_parameters(module)


def _check_parameters(module: nn.Module) -> None:
    name = _name(module)
    if lazy := [n for n, p in module.named_parameters() if isinstance(p, UninitializedParameter)]:
        raise UserError(f"{name} has the lazy parameter {lazy[0]}: give its layer a size, e.g. from shape.")
    dtypes = {p.dtype for p in module.parameters() if p.requires_grad}
    if not dtypes:
        raise UserError(f"{name} has no trainable parameters.")
    if any(dtype.is_complex for dtype in dtypes):
        raise UserError(f"{name} has complex parameters: they have to be real numbers.")
    if len(dtypes) > 1:
        raise UserError(
            f"The parameters of {name} have several types ({', '.join(sorted(map(str, dtypes)))}): use one."
        )


def _overrides(cls: type, base: type, method: str) -> bool:
    return getattr(cls, method, None) is not getattr(base, method, None)


def _not_plain(optimiser: Any, module: nn.Module) -> str | None:
    """How it differs from what every device does, or None."""
    if type(optimiser) is not torch.optim.SGD:
        one = isinstance(optimiser, torch.optim.Optimizer)
        return type(optimiser).__name__ if one else "a scheduler or several optimisers"
    groups, covered = optimiser.param_groups, {id(p) for g in optimiser.param_groups for p in g["params"]}
    for option in ("nesterov", "dampening", "maximize"):
        if any(group[option] for group in groups):
            return f"SGD with {option}"
    if any(group[key] != groups[0][key] for group in groups for key in ("lr", "momentum", "weight_decay")):
        return "SGD with parameter groups that differ"
    if any(p.requires_grad and id(p) not in covered for p in module.parameters()):
        return "SGD of some of its parameters (requires_grad=False freezes the others)"
    return None


def _called(module: nn.Module, method: str, *args: Any) -> Any:
    try:
        return getattr(module, method)(*args)
    except (Exception, SystemExit) as error:
        sizes = f" on a batch of {[list(t.shape) for t in args[0]]}" if method == "training_step" else ""
        raise UserError(f"{method} of {_name(module)} failed{sizes}: {own_code.reason(error)}.") from error


def _name(module: nn.Module) -> str:
    return type(module).__name__


class _Ignored:
    """self.log; knows what it was given."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.names[name] = None


@cache
def _size(data: str) -> tuple[tuple[int, ...], int]:
    from bench.prepare.plugins import load

    loaded = load(*json.loads(data))
    return loaded.shape, loaded.classes
