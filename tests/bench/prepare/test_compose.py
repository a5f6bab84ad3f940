"""From the words of a command line to the configs of its runs."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf

from bench.errors import UserError
from bench.prepare import compose, registry, resolve
from bench.prepare.check import BOUNDS, SHAPES
from bench.prepare.config import SCHEMAS, Keys

ROOT = Path(__file__).parents[3]


def jobs(line: str) -> list[str]:
    return [" ".join(run.words) for run in compose.plan(line.split(), multirun=True)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("seed=2,1 rounds=3", ["seed=2 rounds=3", "seed=1 rounds=3"]),
        ("algo=fedprox,fedavg seed=range(2)", [f"algo={a} seed={s}" for a in ("fedprox", "fedavg") for s in (0, 1)]),
        ("algo=glob([fedp*,fedl*],exclude=fedlc*)", ["algo=fedlga", "algo=fedprox"]),
        ("seed=sort(3,1,2,reverse=true)", ["seed=3", "seed=2", "seed=1"]),
        ("model.hidden=[3,4],[5]", ["model.hidden=[3,4]", "model.hidden=[5]"]),
        ("seed=1,2 lr=0.1 seed=4,3", ["seed=4 lr=0.1", "seed=3 lr=0.1"]),
        ("out='a.b'", ["out='a.b'"]),
        ("", [""]),
    ],
)
def test_a_multirun_is_the_product_with_the_last_key_fastest(line: str, expected: list[str]) -> None:
    assert jobs(line) == expected


def test_each_run_is_composed_once_and_resolved_again_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    composed, resolved, real = [], [], (compose._merged, compose.resolve)
    monkeypatch.setattr(compose, "_merged", lambda *given: composed.append(given) or real[0](*given))
    monkeypatch.setattr(compose, "resolve", lambda *given: resolved.append(given) or real[1](*given))
    runs = compose.plan(["dataset=cifar10", "scale=paper", "seed=0,1"], multirun=True)
    assert (len(composed), len(resolved)) == (2, 2)
    smaller = runs[1].smaller
    assert smaller is runs[1].smaller and smaller is not None
    sides = [config["dataset"]["resize"] for config in (smaller, runs[1].config)]
    assert (smaller["seed"], sides) == (1, [16, None])
    assert (len(composed), len(resolved)) == (2, 3)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "algo=fedlc dataset=cifar10 algo=fedprox algo.mu=1 algo.mu=2e-1",
        "partition=classes partition.per_client=2 devices=equal devices.up=[1,2] seed=3",
        "model=custom 'model.args={a:1,b:{c:[2]}}' model.args.b.c=[3] model.target='x.y' logger=none",
        "optimizer=adam optimizer.eps=1e-3 engine=vmap engine.workers=null protocol=fedlga rounds=${seed} seed=7",
        "partition.alpha=0.5 model.width=2 out='a b' test_samples=null normalise=true",
    ],
)
def test_the_words_mean_what_they_mean_to_hydra(line: str) -> None:
    words = shlex.split(line)
    with compose._hydra() as parser:
        merged, composed = compose._merged(compose._parsed(parser, words)), hydra.compose("bench", words)
    assert OmegaConf.to_yaml(merged) == OmegaConf.to_yaml(composed)


def test_a_composition_leaves_nothing_to_the_next() -> None:
    for given in ({"a": 1}, {"b": 2}):
        assert resolve.typed("model", {"name": "custom", "args": given})["args"] == given


def test_what_cannot_be_smaller_is_not() -> None:
    assert compose.plan(["dataset=digits"], multirun=False)[0].smaller is None
    words = ["dataset=image100", "scale=paper", "epochs=3", "devices.rho=1", "devices.tau_max=3"]
    assert compose.plan(words, multirun=False)[0].smaller is not None
    words[2:] = ["local_unit=epoch", "devices.rho=1", "devices.tau_max=3", "protocol=none", "epochs=3"]
    assert compose.plan(words, multirun=False)[0].smaller is None


def test_many_lines_are_as_one_by_one_and_files_of_one_do_not_meet_those_of_another(tmp_path: Path) -> None:
    for name, rate in (("one", 0.1), ("two", 0.2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(
            "from dataclasses import dataclass\nfrom algorithms.base import Algorithm\n"
            f"@dataclass(frozen=True, kw_only=True)\nclass Mine(Algorithm):\n    rate: float = {rate}\n"
        )
    lines = [["algo=fedprox"], [f"algo={tmp_path}/one/mine.py"], [f"algo={tmp_path}/two/mine.py", "algo.rate=0.3"]]
    made = compose.configs(lines)
    assert made == [compose.config(words) for words in lines]
    assert [config["algo"].get("rate") for config in made] == [None, 0.1, 0.3]
    assert "mine" not in registry.classes("algo")


def test_of_hydra_only_what_is_public_is_used() -> None:
    found = [path for path in ROOT.rglob("*.py") if ".venv" not in path.parts and path != Path(__file__)]
    assert [path for path in found if "hydra._internal" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("schema", [Keys, *SCHEMAS.values()])
def test_metadata_of_keys_are_words_that_are_checked(schema: type) -> None:
    for f in fields(schema):
        assert f.metadata.keys() <= {"help", "choices", "shape", "form", "in_words", *BOUNDS}, f.name
        assert f.metadata.get("shape", "number") in SHAPES
        if isinstance(f.default, str) and "choices" in f.metadata:
            assert f.default in f.metadata["choices"]


def test_a_file_says_only_what_differs_from_the_defaults() -> None:
    for group in ("devices", "engine", "logger"):
        for path in (resolve.CONF / group).glob("*.yaml"):
            assert "null" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("devices.seconds=[2,1]", r"must be \[lo, hi\] with lo <= hi, each between 1e-09 and 1e\+09\."),
        ("devices.up=[]", "must be a number or a list of numbers, each between 1e-09"),
        ("devices.up=fast", "devices.up=fast is not possible"),
        ("model.hidden=[3,0]", "must be a list of numbers, each a finite number of at least 1"),
        ("rounds=0", "must be at least 1 and below 2^63".replace("^", r"\^")),
        ("seed=-1", "must be at least 0 and below 2"),
    ],
)
def test_bounds_in_words(line: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        compose.config([line])
