"""What is left open is filled: data set < protocol < scale < command line."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any

import pytest

from algorithms.base import Algorithm
from bench.errors import UserError
from bench.prepare import compose, registry, resolve
from bench.prepare.config import GROUPS, SCHEMAS, Keys
from datamodules.base import Dataset


def config(*overrides: str) -> dict[str, Any]:
    return compose.config(list(overrides))


@pytest.mark.parametrize(("algo", "dataset"), product(registry.classes("algo"), registry.classes("dataset")))
def test_every_algorithm_on_every_data_set(algo: str, dataset: str) -> None:
    words = [f"algo={algo}", f"dataset={dataset}"]
    if dataset == "diabetes" and registry.classes("algo")[algo]().needs_classes:  # type: ignore[attr-defined]
        with pytest.raises(UserError, match=f"algo={algo} is not possible with task=regression"):
            config(*words)
        return
    resolved = config(*words)
    assert isinstance(registry.create(resolved["algo"]), Algorithm)
    assert isinstance(registry.create(resolved["dataset"]), Dataset)
    assert set(resolved) == {f.name for f in fields(Keys)} - {"resume"} | set(GROUPS)
    assert all(resolved["devices"][f.name] is not None for f in fields(SCHEMAS["devices"]) if f.name == "rho")


def test_the_default_is_what_the_data_set_says() -> None:
    resolved = config()
    assert (resolved["clients"], resolved["cohort"], resolved["epochs"], resolved["lr"]) == (20, 10, 2, 0.1)
    assert resolved["partition"] == {
        "name": "dirichlet",
        "_target_": "datamodules.partition.Dirichlet",
        "alpha": 0.3,
        "min_size": 10,
    }
    assert resolved["model"] == {"name": "mlp", "hidden": [64], "width": 1.0}
    assert resolved["devices"]["name"] == "mixed" and resolved["devices"]["spread"] == 10.0
    assert (resolved["protocol"], resolved["scale"]) == ("none", "paper")


def test_a_protocol_is_the_papers_setting() -> None:
    resolved = config("algo=fedlga", "dataset=fmnist")
    assert {key: resolved[key] for key in ("protocol", "clients", "cohort", "epochs", "batch_size", "rounds")} == {
        **{"protocol": "fedlga", "clients": 50, "cohort": 10, "epochs": 5, "batch_size": 10, "rounds": 200},
    }
    assert (resolved["sampling"], resolved["weighting"], resolved["local_unit"]) == (
        "with_replacement",
        "uniform",
        "step",
    )
    assert resolved["partition"]["name"] == "classes" and resolved["partition"]["per_client"] == 2
    assert resolved["model"]["hidden"] == [400] and resolved["devices"]["rho"] == 0.5
    assert resolved["lr"] == 0.005 and resolved["target"] == 0.65 and resolved["normalise"] is False


@pytest.mark.parametrize(
    ("algo", "dataset", "name", "why"),
    [
        ("fedlga", "fmnist", "fedlga", "own paper"),
        ("fedavg", "fmnist", "fedlga", "home protocol of fmnist"),
        ("fedlga", "digits", "none", "no paper"),
    ],
)
def test_the_protocol_is_the_methods_own_or_the_data_sets_home(algo: str, dataset: str, name: str, why: str) -> None:
    resolved = config(f"algo={algo}", f"dataset={dataset}")
    lines = resolve.describe(resolved)
    assert resolved["protocol"] == name
    assert any(line.startswith("protocol") and name in line and why in line for line in lines)


def test_an_explicit_protocol_has_to_cover_the_data_set() -> None:
    with pytest.raises(UserError, match="protocol=fedlga does not cover dataset=digits, only fmnist"):
        config("protocol=fedlga")


def test_protocol_none_leaves_the_data_set() -> None:
    resolved = config("dataset=fmnist", "protocol=none")
    assert resolved["protocol"] == "none" and resolved["local_unit"] == "epoch"
    assert any("as asked" in line for line in resolve.describe(resolved))


def test_a_protocols_fields_of_an_algorithm_are_below_the_command_line() -> None:
    assert config("algo=fedprox", "dataset=fmnist")["algo"]["mu"] == 0.1
    assert config("algo=fedprox", "dataset=fmnist", "algo.mu=0.5")["algo"]["mu"] == 0.5
    assert config("algo=fedprox", "dataset=fmnist", "algo.mu=0.01")["algo"]["mu"] == 0.01  # its default, but asked for
    assert config("algo=fedprox")["algo"]["mu"] == 0.01


def test_the_command_line_wins() -> None:
    resolved = config("dataset=fmnist", "lr=0.01", "clients=30", "normalise=true", "devices.rho=0")
    assert (resolved["lr"], resolved["clients"], resolved["normalise"], resolved["cohort"]) == (0.01, 30, True, 10)
    assert resolved["devices"]["rho"] == 0.0


def test_sub_keys_go_over_the_resolved_choice() -> None:
    assert config("partition.alpha=0.6")["partition"]["alpha"] == 0.6
    assert config("partition=dirichlet", "partition.alpha=0.6", "dataset=fmnist")["partition"]["name"] == "dirichlet"
    assert config("model.hidden=[8,4]")["model"] == {"name": "mlp", "hidden": [8, 4], "width": 1.0}
    assert config("model.width=2", "dataset=fmnist")["model"] == {"name": "mlp", "hidden": [400], "width": 2.0}
    with pytest.raises(UserError, match=r"partition=classes here, which has no alpha; add partition=dirichlet"):
        config("dataset=fmnist", "partition.alpha=0.6")


def test_an_option_asked_for_wins_over_data_set_and_protocol() -> None:
    assert config("model=mlp400")["model"] == {"name": "mlp", "hidden": [400], "width": 1.0}
    assert config("model=linear")["model"] == {"name": "linear"}
    assert config("partition=classes")["partition"]["per_client"] == 2
    devices = config("devices=equal", "dataset=fmnist")["devices"]
    assert (devices["name"], devices["spread"], devices["rho"]) == ("equal", 1.0, 0.5)


def test_null_is_left_open_except_where_it_means_something() -> None:
    assert config("rounds=null")["rounds"] == 30
    assert config("test_samples=null", "scale=smoke")["test_samples"] is None
    assert config("devices.up=3", "devices.down=null")["devices"]["down"] is None


def test_smoke_is_small_and_below_the_command_line() -> None:
    small = config("scale=smoke", "dataset=fmnist")
    assert (small["cohort"], small["epochs"], small["rounds"], small["arrivals_per_round"]) == (2, 2, 2, 2)
    assert (small["local_unit"], small["test_samples"], small["scale"]) == ("step", 256, "smoke")
    assert config("scale=smoke", "rounds=7")["rounds"] == 7
    assert any("scale=paper" in line for line in resolve.describe(small))


def test_scale_auto_takes_what_a_protocol_marks_as_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = {"digits": {"rounds": 5, "model": {"name": "mlp", "hidden": [8]}}}
    fake = {"name": "huge", "home": ["digits"], "datasets": {"digits": {"rounds": 999}}, "heavy": heavy}
    known = resolve.options
    monkeypatch.setattr(
        resolve, "options", lambda group: known(group) | ({"huge": fake} if group == "protocol" else {})
    )
    on_cpu = config()
    assert (on_cpu["protocol"], on_cpu["scale"], on_cpu["rounds"]) == ("huge", "cpu", 5)
    assert on_cpu["model"]["hidden"] == [8]
    on_paper = config("scale=paper")
    assert (on_paper["scale"], on_paper["rounds"], on_paper["model"]["hidden"]) == ("paper", 999, [64])
    assert config("engine.device=cuda")["scale"] == "paper"


@pytest.mark.parametrize("name", resolve.options("protocol"))
def test_protocols_set_only_what_exists(name: str) -> None:
    content = resolve.options("protocol")[name]
    assert content["name"] == name
    about = {"name", "paper", "title", "venue", "methods", "own", "home", "common"}
    assert set(content) <= about | {"datasets", "algo", "keys", "heavy"}
    known = {f.name for f in fields(Keys)} | {"partition", "model", "devices", "dataset", "algo"}
    algos = dict(content.get("algo", {}))
    for dataset, values in [*content.get("datasets", {}).items(), *content.get("heavy", {}).items()]:
        assert set(values) <= known
        assert set(values.get("dataset", {})) <= set(registry.defaults(registry.classes("dataset")[dataset]))
        algos |= values.get("algo", {})
    for algo, values in content.get("keys", {}).items():
        assert algo in registry.classes("algo") and set(values) <= {f.name for f in fields(Keys)}
    for algo, values in algos.items():
        assert set(values) <= set(registry.defaults(registry.classes("algo")[algo]))
    assert set(content.get("home", ())) <= set(content.get("datasets", {}))
    assert set(content.get("methods", ())) <= set(registry.classes("algo"))


def test_a_protocol_may_set_keys_of_a_run_for_one_method() -> None:
    def schedule(*words: str) -> str | None:
        found: str | None = compose.config(["dataset=gtsrb", "protocol=fed2a", *words])["schedule"]
        return found

    assert (schedule("algo=fed2a"), schedule("algo=fedasync")) == ("sync", None)
    assert (schedule("algo=fed2a", "schedule=null"), schedule("algo=fed2a", "scale=paper")) == (None, "sync")
    assert compose.config(["algo=fed2a", "dataset=digits"])["schedule"] is None


@pytest.mark.parametrize("cls", registry.classes("dataset").values())
def test_data_sets_set_only_what_exists(cls: type[Dataset]) -> None:
    required = {f.name for f in fields(Keys) if f.name in ("rounds", "clients", "cohort", "epochs", "lr", "target")}
    assert required <= set(cls.defaults) <= {f.name for f in fields(Keys)} | {"partition", "task", "model", "devices"}


@pytest.mark.parametrize("group", SCHEMAS)
def test_files_have_the_fields_of_their_schema(group: str) -> None:
    for name, content in resolve.options(group).items():
        assert set(content) <= {f.name for f in fields(SCHEMAS[group])}, name
