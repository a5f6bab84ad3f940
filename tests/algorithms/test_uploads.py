"""What every transform of uploads has to keep with every method; a new one is covered without being named here."""

import inspect

import pytest
import torch

from algorithms.uploads.base import Size
from bench.prepare.assemble import build
from bench.prepare.registry import classes
from tests.algorithms.loops import finish, interrupt, same_end, state
from tests.algorithms.test_contract import ALGORITHMS, ASYNCHRONOUS, SETTINGS, clients, composed, config

TRANSFORMS = sorted(classes("upload"))
ROW = "topk+quantise"
HERE = ("sync", "buffered")
UNLIKE = ("fed2a", "fedagg", "fedbabu", "fedgh", "fedlc", "scaffold")  # of each way to send something else, one
LOST = ("schedule=async", "concurrency=8", "buffer=3", "devices.loss=0.3", "devices.up=1", "devices.down=2")
WAYS = {"sync": (), **{name: SETTINGS[name] for name in ASYNCHRONOUS}, "lost": LOST}
SLOW = pytest.mark.slow


def loop(name, *words, upload=ROW, **fields):
    chosen = config(name, *words) | {"upload": composed(8, f"upload={upload}")["upload"] | fields}
    chosen |= {"engine": {**chosen["engine"], "workers": 1}}
    return build(chosen).loop


def needs_sync(name):
    return "trace" in classes("algo")[name]().requires


def each_with_every():
    """Always: a row of two with every method, and every transform with one that sends another vector beside."""
    yield from ((name, ROW, "sync") for name in ALGORITHMS)
    yield from ((name, ROW, "buffered") for name in UNLIKE if not needs_sync(name))
    yield from (("scaffold", one, way) for one in TRANSFORMS for way in (*HERE, "lost"))
    for name in ALGORITHMS:
        for way in WAYS if not needs_sync(name) else HERE[:1]:
            yield from (pytest.param(name, one, way, marks=SLOW) for one in (*TRANSFORMS, "clip_noise+topk+quantise"))


@pytest.mark.parametrize(("name", "upload", "way"), each_with_every())
def test_it_runs_with_every_method_and_resumes_bit_for_bit(name, upload, way):
    one, resumed = (loop(name, *WAYS[way], upload=upload) for _ in range(2))
    one.advance()
    one.advance()
    interrupt(one, resumed)
    same_end(one, resumed)
    assert one.transforms.uploads == resumed.transforms.uploads
    assert torch.isfinite(one.deployed()).all()


@pytest.mark.parametrize("name", [*UNLIKE, *(pytest.param(n, marks=SLOW) for n in ALGORITHMS if n not in UNLIKE)])
def test_where_nothing_is_left_out_or_cut_every_bit_is_the_same(name):
    plain, sent = loop(name, upload="none"), loop(name, upload="topk+clip_noise", fraction=1.0, clip=1e15, noise=0.0)
    rows = [finish(one) for one in (plain, sent)]
    assert rows[0]["bytes_up"] == rows[1]["bytes_up"]
    here, there = state(plain), state(sent)
    for key, value in here.items():
        assert torch.equal(value, there[key]), key


@pytest.mark.parametrize(
    ("name", "upload"),
    [*((name, ROW) for name in (*UNLIKE, "local_only") if name != "fed2a"), *(("scaffold", one) for one in TRANSFORMS)],
)
def test_bytes_are_those_of_the_vectors_and_four_for_every_other_number(name, upload):
    one = loop(name, upload=upload)
    size, algo = one.engine.layout.size, one.algo
    sent = int(one.engine.layout.sizes[algo.sends(0, one.fed)].sum()) * (algo.personal != "all")
    jobs = 0
    while not one.finished:
        row = one.advance()
        jobs += len(one.ended)
    expected = 4 * (algo.extra_up(one.fed) - size * len(algo.vectors(one.fed)))
    for numbers in (sent, *[size] * len(algo.vectors(one.fed))):
        message = Size(numbers)
        for part in upload.split("+") if numbers else ():
            message = classes("upload")[part]().size(message)
        expected += message.bytes
    assert row["bytes_up"] == jobs * expected
    assert bool(expected) == (name != "local_only")


@pytest.mark.parametrize("upload", TRANSFORMS)
def test_a_transform_changes_the_result_and_the_seed_decides_how(upload):
    def weights(seed, upload=upload):
        one = loop("fedavg", f"seed={seed}", upload=upload)
        finish(one)
        return one.server["w"]

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4)) and not torch.equal(weights(3), weights(3, "none"))


@pytest.mark.parametrize("upload", ["quantise", "clip_noise"])
def test_how_many_jobs_are_trained_together_changes_no_bit(upload):
    ends = []
    for batch in ("1", "3", "null"):
        one = loop("scaffold", "schedule=async", f"engine.batch={batch}", upload=upload)
        finish(one)
        ends.append(one.server["w"])
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])


def test_a_device_remembers_nothing_of_what_never_leaves_it():
    one = loop("local_only", upload="topk")
    finish(one)
    assert one.transforms.uploads and not any(
        one.transforms.memory.rows(name).any() for name in one.transforms.memory.initial
    )


def test_a_pass_that_does_not_count_leaves_what_devices_remember_as_it_was():
    """FedAgg's fixed point trains a cohort again until its mean field is found; only the last uploads are used."""
    one = loop("fedagg", "rounds=1", f"clients={clients('fedagg')}", upload="topk")
    seen, received = [], one.transforms.received

    def watch(rows, learned):
        before = one.transforms.memory.rows("delta topk.residual").clone()
        found = received(rows, learned)
        seen.append((before, one.transforms.memory.rows("delta topk.residual").clone()))
        return found

    one.transforms.received = watch
    finish(one)
    assert len(seen) > 1 and not any(before.any() for before, _ in seen)
    assert all(after.any() for _, after in seen)
    assert torch.equal(one.transforms.memory.rows("delta topk.residual"), seen[-1][1])


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_docstring_names_the_paper_and_the_file_is_short(name):
    cls = classes("upload")[name]
    assert any(str(year) in (inspect.getdoc(cls) or "") for year in range(2010, 2027)), "no venue with its year"
    assert len(inspect.getsource(inspect.getmodule(cls)).splitlines()) <= 100
