"""python -m bench speed on work that takes milliseconds: what it writes, and that all variants do the same work."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from algorithms.base import Algorithm
from bench.engine.eager import Eager
from bench.engine.vmap import Vmap
from bench.errors import UserError
from bench.speed import baselines, command, growth, processes, variants, work
from bench.speed.processes import Own
from bench.speed.work import Data, Round, Workload

TINY = {
    "dense": Workload({"name": "mlp", "hidden": [8]}, (1, 4, 4), 3, 4, 5, 2, epochs=2),
    "images": Workload({"name": "lenet5", "width": 0.25}, (1, 28, 28), 3, 4, 2, 1),
}
KEYS = {"seconds_per_round", "client_steps_per_second", "peak_mb"}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(command, "WORKLOADS", TINY)


def test_the_command_writes_every_variant_and_a_picture(tiny, capsys):
    """The trainer apart, whose process would import Lightning."""
    names = [name for name in variants.VARIANTS if name != "trainer"]
    words = ["--workloads", "dense", "--variants", ",".join(names), "--repetitions", "1"]
    assert command.main([*words, "--json", "a.json", "--plot", "a.png"]) == 0
    found = json.loads(Path("a.json").read_text())
    assert found.keys() == {"dense"}
    assert list(found["dense"]) == names
    for figure in found["dense"].values():
        assert figure.keys() == KEYS
        assert all(value > 0 for value in figure.values())
    steps = found["dense"]["plain"]["client_steps_per_second"] * found["dense"]["plain"]["seconds_per_round"]
    assert steps == pytest.approx(2 * (1 + 2 + 1 + 2 + 1))  # two batches; every other device makes two passes
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "1.00 x plain" in out
    assert out.count("loop ") == 6  # what is no training, of the six variants that have our loop


def test_only_what_is_asked_for_is_measured_and_images_are_too(tiny):
    words = ["--workloads", "images", "--variants", "floor,eager", "--repetitions", "1", "--json", "a.json"]
    assert command.main(words) == 0
    (figures,) = json.loads(Path("a.json").read_text()).values()
    assert set(figures) == {"floor", "eager"}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--workloads fmnist", "fmnist_mlp"),
        ("--variants fast", "variant"),
        ("--repetitions 0", "at least 1"),
    ],
)
def test_what_does_not_exist_is_refused_in_a_sentence(words, part):
    with pytest.raises(UserError, match=part):
        command.main(words.split())


def test_all_workloads_have_the_sizes_of_the_issue():
    steps = {name: load.client_steps for name, load in work.WORKLOADS.items()}
    assert steps == {
        "mnist_linear": 5700,
        "fmnist_mlp": 1200,
        "emnist_lenet": 400,
        "mnist_cnn": 100,
        "cifar10_cnn": 100,
        "gtsrb_cnn": 30,
        "digits_1000": 1999,
    }


def _counted(monkeypatch, load, make):
    """How many samples a variant takes losses of in a round."""
    seen = []
    whole = nn.functional.cross_entropy

    def count(logits, y, *args, **kwargs):
        seen.append(len(y))
        return whole(logits, y, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(nn.functional, "cross_entropy", count)
        make(load, Data(load))()
    return seen


def test_the_plain_loop_and_the_trainer_take_the_steps_that_eager_takes(monkeypatch):
    load = TINY["dense"]
    eager = _counted(monkeypatch, load, lambda a, b: variants.federated(a, b, Eager, Algorithm()))
    assert eager == [load.batch_size] * load.client_steps
    for make in (baselines.plain, baselines.trainer):
        assert _counted(monkeypatch, load, make) == eager


def test_one_round_of_the_plain_loop_is_one_of_fedavg(monkeypatch):
    """Full batches, so that the order of samples does not matter."""
    load = Workload({"name": "mlp", "hidden": [8]}, (1, 4, 4), 3, 4, 5, 1, epochs=2)
    data, net = Data(load), load.net()
    monkeypatch.setattr(Workload, "net", lambda self: net)
    start = [p.detach().clone() for p in net.parameters()]
    rounds = variants.federated(load, data, Eager, Algorithm())
    loop = rounds.run.__closure__
    rounds()
    loops = [cell.cell_contents for cell in loop if hasattr(cell.cell_contents, "server")]
    w = loops[0].server["w"]
    with torch.no_grad():
        for p, value in zip(net.parameters(), start, strict=True):
            p.data = value.clone()
    baselines.plain(load, data)()
    torch.testing.assert_close(w, torch.cat([p.detach().flatten() for p in net.parameters()]), rtol=1e-5, atol=1e-6)


def test_a_variant_has_the_memory_of_its_own_process():
    def heavy():
        kept = []
        return Round(lambda: kept.append(torch.ones(50_000_000)))

    light, much = Own(lambda: Round(lambda: None)), Own(heavy)
    try:
        light.round()
        much.round()
        assert 150 < much.peak_mb() - light.peak_mb() < 400  # 200 MB
    finally:
        much.close()
        light.close()


def test_a_variant_that_cannot_run_says_why():
    def refuse():
        raise UserError("not this one")

    process = Own(refuse)
    assert process.refusal == "not this one"
    process.close()


def test_the_growth_has_cost_and_memory_for_each_number_of_clients(capsys):
    kinds = {name: replace(kind, drawn=kind.drawn and 10, most=100) for name, kind in growth.KINDS.items()}
    found = growth.measure(kinds, rounds=1)
    assert found.keys() == growth.KINDS.keys() and max(growth.Kind(10).clients()) == 1_000_000
    for sizes in found.values():
        assert sizes.keys() == {"10", "100"}
        assert all(row["seconds_per_client_step"] > 0 and row["peak_mb"] > 0 for row in sizes.values())
    growth.draw(found, Path("growth.png"))
    assert Path("growth.png").read_bytes().startswith(b"\x89PNG")


def test_another_program_gets_the_same_network_and_steps():
    load = replace(TINY["images"], clients=3, epochs=2, steps=2)
    spec = json.loads(json.dumps(processes.specification(load)))
    assert (spec["samples"], spec["passes"], spec["batch_size"]) == (8, [1, 2, 1], 4)
    from bench.speed.peers import Net

    theirs, ours = Net(spec), load.net()
    assert [p.shape for p in theirs.parameters()] == [p.shape for p in ours.parameters()]
    theirs.net.load_state_dict(ours.state_dict())
    x = torch.rand(2, *load.shape)
    assert torch.equal(theirs.net(x), ours(x))


def test_the_peers_file_imports_nothing_of_fedbench():
    tree = ast.parse(Path(processes.__file__).with_name("peers.py").read_text())
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert {"torch", "numpy"} <= set(names)
    assert not {name.partition(".")[0] for name in names} & {"bench", "algorithms", "datamodules"}


def test_the_vmap_variant_is_the_vmap_engine():
    made = []
    monitor = variants.federated(
        TINY["dense"], Data(TINY["dense"]), lambda *parts: made.append(Vmap(*parts)) or made[0], Algorithm()
    )
    monitor()
    assert made[0].name == "vmap"
