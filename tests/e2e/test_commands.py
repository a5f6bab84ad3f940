"""What a user types, through the real command line, on the bundled digits."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from bench.main import command
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.record import read_all

ROOT = Path(__file__).parents[2]


def bench(*words):
    """Runs one benchmark and returns its record."""
    before = {run.folder for run in read_all(Path("runs"))} if Path("runs").exists() else set()
    assert command([*words, "logger=none"]) == 0
    (new,) = [run for run in read_all(Path("runs")) if run.folder not in before]
    return new


def test_fedavg_passes_80_percent_on_digits_within_20_rounds():
    run = bench("algo=fedavg", "dataset=digits", "rounds=20")
    assert run.result.best_accuracy > 0.8
    assert run.result.dataset == "digits"
    assert run.result.protocol == "none"


def test_fedprox_without_its_term_is_fedavg_bit_for_bit():
    keys = ("rounds=5", "devices.rho=0.5", "momentum=0.5")
    prox, avg = bench("algo=fedprox", "algo.mu=0", *keys), bench("algo=fedavg", *keys)
    assert prox.result.weights_sha256 == avg.result.weights_sha256
    assert bench("algo=fedprox", "algo.mu=1", *keys).result.weights_sha256 != avg.result.weights_sha256


def test_fedasync_with_one_device_at_a_time_and_mixing_1_is_sequential_sgd():
    """Each arrival replaces the model, so that the devices train one after the other: plain torch, same batches."""
    keys = ["algo=fedasync", "algo.alpha=1", "algo.staleness=const", "algo.mu=0", "concurrency=1", "clients=5"]
    config = compose.config([*keys, "cohort=5", "rounds=12"])
    parts = build(config)
    loop, batches = parts.loop, parts.loop.engine.batches
    net, optimiser = _twin(parts, config["lr"])
    visits = dict.fromkeys(range(5), 0)
    for version in range(12):
        (client,) = loop.devices.draw(version, range(5), 1)
        for epoch in batches.epochs(client, visits[client], config["epochs"]):
            for index in epoch:
                x, y = batches.load(index)
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                optimiser.step()
        visits[client] += 1
        loop.advance()
        assert loop.version == version + 1
        expected = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        torch.testing.assert_close(loop.server["w"], expected, rtol=0, atol=1e-5)
    assert sum(1 for n in visits.values() if n) > 2


def _twin(parts, lr):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    with torch.no_grad():
        for p, value in zip(net.parameters(), parts.loop.engine.layout.views(parts.loop.server["w"]), strict=True):
            p.copy_(value)
    return net, torch.optim.SGD(net.parameters(), lr=lr)


def test_every_method_sees_the_same_cohorts_stragglers_and_work():
    keys = ("rounds=4", "devices.rho=0.5", "epochs=3")
    runs = [bench(f"algo={name}", *keys) for name in ("fedavg", "fedprox", "scaffold", "fedlga")]
    seen = {(str([row["gradient_evaluations"] for row in r.rows]), r.result.virtual_seconds) for r in runs}
    assert len(seen) == 1
    assert bench("algo=fedavg", *keys, "seed=1").result.virtual_seconds != runs[0].result.virtual_seconds


def test_a_multirun_ends_with_a_table_and_a_picture(capsys):
    assert command(["-m", "algo=fedavg,fedasync", "seed=0,1", "rounds=2", "logger=none"]) == 0
    printed = capsys.readouterr().out
    table = printed[printed.index("digits, protocol none") :]
    assert "fedavg" in table
    assert "fedasync" in table
    assert "never" in table
    assert "±" in table
    (picture,) = Path("runs").glob("curves-*.png")
    assert str(picture) in printed
    assert picture.stat().st_size > 10_000
    assert len(read_all(Path("runs"))) == 4


def test_started_without_the_environment_bench_says_what_to_do(tmp_path):
    """A Python that has none of the packages: isolated from site-packages with -S and -I."""
    done = subprocess.run(
        [sys.executable, "-S", "-I", str(ROOT / "bench.py")], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "make bench" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_nothing_is_written_outside_the_output_folder(tmp_path):
    bench("rounds=1")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize(
    "path", sorted(str(path.relative_to(ROOT / "bench")) for path in (ROOT / "bench").rglob("*.py"))
)
def test_training_happens_in_the_engines_only(path):
    if not path.startswith(("engine/", "speed/")):  # speed: the plain loops that engines are compared with
        text = (ROOT / "bench" / path).read_text()
        assert ".backward(" not in text
        assert "autograd.grad(" not in text


def test_a_multirun_with_a_diverged_run_still_ends_with_its_table(capsys):
    assert command(["-m", "lr=0.1,1e30", "rounds=2", "logger=none"]) == 2
    out, err = capsys.readouterr()
    assert "diverged (its loss is" in err
    assert "Traceback" not in err
    (line,) = [line for line in out.splitlines() if "lr=1e+30" in line and "diverged" in line]
    assert "diverged (1 of 1)" in line
    assert "never" in line
    runs = {run.config["lr"]: run.result for run in read_all(Path("runs"))}
    assert runs[1e30].diverged["round"] == 1
    assert runs[1e30].final_accuracy is None
    assert runs[0.1].final_accuracy > 0
