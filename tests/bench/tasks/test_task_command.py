"""Tasks other than classification through the whole command: nothing they leave behind says accuracy."""

import json
from pathlib import Path

import pytest
import torch

from bench.main import command
from bench.output.curves import drawn
from bench.output.tables import leaderboard
from bench.prepare import compose
from bench.prepare.assemble import build
from bench.record import load, read_all
from tests.patience import until

SMALL = ("clients=88", "cohort=3", "epochs=1", "rounds=3", "batch_size=64", "engine.workers=1", "engine.device=cpu")
WORDS = {  # data set: metric, its column in a table, on an axis, the best blind answer
    "diabetes": ("rmse", "RMSE", "test RMSE", "RMSE 500.00; always answering the mean: 76.03"),
    "characters": (
        *("bits", "bits per character", "test bits per character"),
        "bits per character 500.00; always answering how frequent each character is: 4.55",
    ),
}


@pytest.mark.parametrize("dataset", WORDS)
def test_a_task_from_the_command_to_the_table(dataset, capfd):
    name, column, axis, target = WORDS[dataset]
    keys = [f"dataset={dataset}", *SMALL, "target=500", "test_samples=300"]
    assert command([*keys, "lr=1e-9"]) == 0
    assert command(["-m", *keys, "seed=0,1", "logger=none"]) == 0
    out, err = capfd.readouterr()
    assert f"target     {target}" in out or dataset == "characters"
    runs = read_all(Path("runs"))
    worse, better = sorted(runs, key=lambda run: -run.result.final)[::2]
    assert f"{column} {worse.metric.text(worse.result.final)} (best " in out
    assert ", target 500 after 1 rounds (" in out and f"round 3/3, {column} " in err
    table = leaderboard([worse, better])
    head = table.splitlines()[3]
    assert f"{column}   best  rounds to 500" in head.replace("    ", "   ") and "%" not in head
    assert table.index(f"lr={better.config['lr']}") < table.index("lr=1e-09")
    figure = drawn(runs)
    assert figure.axes[0].get_ylabel() == axis
    assert "target 500" in [line.get_label() for line in figure.axes[0].lines]
    for run in runs:
        result = json.loads((run.folder / "result.json").read_text())
        assert result[f"best_{name}"] == min(run.column(f"test_{name}")) and result["rounds_to_target"] == 1
        assert result[f"final_{name}"] == run.rows[-1][f"test_{name}"] == run.number(f"final_{name}")
        assert run.number("final_accuracy") is None
        for file in ("config.yaml", "metrics.csv", "result.json"):
            assert "accuracy" not in (run.folder / file).read_text()
    assert "accuracy" not in (out + err + table).lower()
    frame, rounds = load("runs")
    assert {f"final_{name}", f"best_{name}", "task"} <= set(frame.columns) and f"test_{name}" in rounds.columns
    (log,) = Path("runs").glob("*/wandb/offline-run-*/run-*.wandb")
    for text in (f"test_{name}", f"final_{name}"):
        assert until(lambda text=text: text.encode() in log.read_bytes())
    assert b"accuracy" not in log.read_bytes()


@pytest.mark.parametrize("words", ["dataset=diabetes", "dataset=characters", "dataset=characters model=char_gru"])
def test_engines_and_workers_agree(words):
    def end(*more):
        short = ("local_unit=step", "epochs=3", "lr=0.1", "test_samples=2000", *more)
        made = build(compose.config([*words.split(), *SMALL, *short]))
        try:
            while not made.loop.finished:
                made.loop.advance()
            return made.loop.server["w"].clone(), made.evaluate(True)
        finally:
            made.workers.close()

    alone, several = end("engine=eager"), end("engine=eager", "engine.workers=2")
    assert torch.equal(alone[0], several[0]) and alone[1] == several[1]
    if "gru" not in words:
        stacked = end("engine=vmap")
        torch.testing.assert_close(stacked[0], alone[0], rtol=1e-4, atol=1e-6)
