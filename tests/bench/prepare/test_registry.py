"""Dataclasses become Hydra options."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError

from algorithms.base import Algorithm
from algorithms.fedprox import FedProx
from bench.prepare import registry


@dataclass(frozen=True, kw_only=True)
class Mine(Algorithm):
    """A method of my own."""

    kind: Literal["a", "b"] = "a"
    scale: float | str = 0.5
    eta: float | None = None
    rates: tuple[float, ...] = (0.1, 0.2)


@pytest.fixture
def mine() -> Iterator[type]:
    with registry.borrowed():
        yield registry.register(Mine)
    assert "mine" not in registry.classes("algo")


def node(name: str, **values: object) -> dict[str, object]:
    content = OmegaConf.to_container(OmegaConf.merge(OmegaConf.structured(registry.twin("algo", name)), values))
    assert isinstance(content, dict)
    return {str(k): v for k, v in content.items()}


def test_everything_in_the_packages_is_found_and_nothing_else() -> None:
    assert {"fedavg", "fedprox", "scaffold", "fedlga", "fedasync"} <= set(registry.classes("algo"))
    assert {"digits", "mnist", "fmnist"} <= set(registry.classes("dataset"))
    assert {"iid", "classes", "dirichlet"} <= set(registry.classes("partition"))
    assert not {"algorithm", "dataset", "partition"} & {n for g in registry.BASES for n in registry.classes(g)}


def test_discovery_does_not_import_lightning() -> None:
    import subprocess

    code = (
        "import sys; from bench.prepare import registry; registry.classes('dataset');"
        " print('pytorch_lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_create_builds_the_frozen_dataclass() -> None:
    assert registry.create(node("fedprox", mu=1)) == FedProx(mu=1.0)
    assert node("fedprox")["_target_"] == "algorithms.fedprox.FedProx"


def test_a_class_from_anywhere(mine: type) -> None:
    assert registry.title(mine) == "A method of my own."
    assert registry.create(node("mine", eta=1, scale=2)) == Mine(eta=1.0, scale=2.0)
    assert registry.create(node("mine")) == Mine()
    with pytest.raises(ValidationError):
        node("mine", eta="fast")


@pytest.mark.parametrize(("values", "sentence"), [({"kind": "c"}, "a or b, not c"), ({"scale": [1]}, "float or str")])
def test_what_omegaconf_cannot_check_create_does(mine: type, values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        registry.create(node("mine", **values))


def test_two_classes_of_one_name_are_refused() -> None:
    other = type("FedProx", (Algorithm,), {"__module__": "elsewhere"})
    with pytest.raises(ValueError, match="two classes are called algo=fedprox"):
        registry.register(other)


def test_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="not an Algorithm"):
        registry.register(int)


def test_auto_has_the_fields_of_every_partition() -> None:
    auto = OmegaConf.structured(registry.twin("partition", "auto"))
    assert {"name", "alpha", "per_client", "imbalance"} <= set(auto) and auto.alpha is None
