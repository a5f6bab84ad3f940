"""What a user types, through the real command line, on the bundled digits."""

from pathlib import Path

import torch
from torch import nn

from bench.main import command
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.record import read_all
from tests.running import ROOT, bench


def test_fedavg_passes_80_percent_on_digits_within_20_rounds_and_writes_to_the_output_folder_alone(tmp_path):
    run = bench("algo=fedavg", "dataset=digits", "rounds=20")
    assert run.result.best > 0.8
    assert run.result.dataset == "digits"
    assert run.result.protocol == "none"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


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


def test_a_multirun_ends_with_a_table_and_a_picture(capsys):
    assert command(["-m", "algo=fedavg,fedasync", "seed=0,1", "rounds=2", "logger=none"]) == 0
    printed = capsys.readouterr().out
    table = printed[printed.index("digits, protocol none") :]
    for word in ("fedavg", "fedasync", "never", "±"):
        assert word in table
    (picture,) = Path("runs").glob("curves-*.png")
    assert str(picture) in printed
    assert picture.stat().st_size > 10_000
    assert len(read_all(Path("runs"))) == 4


def test_a_multirun_with_a_diverged_run_still_ends_with_its_table(capsys):
    assert command(["-m", "lr=0.1,1e14", "rounds=2", "logger=none"]) == 2
    out, err = capsys.readouterr()
    assert "diverged (its loss is" in err
    assert "Traceback" not in err
    (line,) = [line for line in out.splitlines() if "lr=100000000000000.0" in line and "diverged" in line]
    assert "diverged (1 of 1)" in line
    assert "never" in line
    runs = {run.config["lr"]: run.result for run in read_all(Path("runs"))}
    assert runs[1e14].diverged["round"] == 1
    assert runs[1e14].final is None
    assert runs[0.1].final > 0


def test_training_happens_in_the_engines_only():
    allowed = ("engine", "speed")  # speed: the plain loops that engines are compared with
    paths = [path.relative_to(ROOT / "bench") for path in (ROOT / "bench").rglob("*.py")]
    texts = {str(path): (ROOT / "bench" / path).read_text() for path in paths if path.parts[0] not in allowed}
    assert len(texts) > 50
    assert [path for path, text in texts.items() if ".backward(" in text or "autograd.grad(" in text] == []
