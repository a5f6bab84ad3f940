import math

import pytest
import torch

from bench.checkpoint import AtomicCheckpoint, checkpoint_path
from bench.federation import Federation, quiet, trainer
from bench.record import Record, read

# isort: split
from pytorch_lightning.callbacks import ModelCheckpoint


class FakeLoop:
    """A loop whose only state is a vector and a counter, with the real one's methods."""

    def __init__(self, rounds, on_advance=lambda loop: None):
        self.rounds, self.on_advance, self.ended = rounds, on_advance, []
        self.round = 0
        self.server = {"w": torch.ones(3, dtype=torch.float64)}

    @property
    def finished(self):
        return self.round >= self.rounds

    def advance(self):
        self.on_advance(self)
        self.round += 1
        self.server = {"w": torch.cos(self.server["w"] + self.round)}
        return {"round": self.round, "virtual_seconds": 2.0 * self.round, "train_loss": float(self.server["w"].sum())}

    def state_dict(self):
        return {"round": self.round, "w": self.server["w"]}

    def load_state_dict(self, state):
        self.round, self.server = state["round"], {"w": state["w"]}


@pytest.fixture
def record(tmp_path):
    config = {"algo": {"name": "fake"}, "dataset": {"name": "none"}, "seed": 0, "out": str(tmp_path / "runs")}
    made = Record.create(config)
    yield made
    made.close()


class FakeFigures:
    names = ("test_loss", "test_accuracy")

    def __init__(self, loop):
        self.loop = loop

    def __call__(self, everyone):
        assert everyone == self.loop.finished
        return {"test_loss": 1 / self.loop.round, "test_accuracy": self.loop.round / 100}


def fit(loop, record, *, eval_every=1, checkpoint_seconds=1e9, resume=False, callbacks=()):
    federation = Federation(
        loop,
        FakeFigures(loop),
        record,
        eval_every=eval_every,
        checkpoint_seconds=checkpoint_seconds,
        on_begin=lambda: None,
        on_round=lambda row: None,
    )
    with quiet():
        lightning = trainer(record.folder)
        lightning.callbacks.extend(callbacks)
        lightning.fit(federation, ckpt_path=checkpoint_path(record.folder) if resume else None)
    return federation, lightning


def test_an_epoch_is_a_round_and_a_row(record):
    loop = FakeLoop(5)
    _, lightning = fit(loop, record)
    assert loop.round == lightning.current_epoch == lightning.global_step == 5
    assert [row["round"] for row in read(record.folder).rows] == [1, 2, 3, 4, 5]
    wall = [row["wall_seconds"] for row in record.rows]
    assert wall == sorted(wall) and wall[0] >= 0


def test_evaluation_every_so_often_and_at_the_end(record):
    fit(FakeLoop(7), record, eval_every=3)
    accuracy = [row["test_accuracy"] for row in read(record.folder).rows]
    assert [t for t, value in enumerate(accuracy, 1) if not math.isnan(value)] == [3, 6, 7]


def test_the_loop_decides_when_to_stop(record):
    loop = FakeLoop(10)

    def run_out_of_time(loop):
        if loop.round == 3:
            loop.rounds = 4

    loop.on_advance = run_out_of_time
    fit(loop, record, eval_every=10)
    assert loop.round == 4
    assert record.rows[-1]["test_accuracy"] == 0.04


def test_gradients_survive_and_the_module_has_no_parameters(record):
    federation, _ = fit(FakeLoop(1), record)
    assert list(federation.parameters()) == []
    assert list(federation.children()) == []
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.ones(2)
    federation.register_parameter("weight", weight)
    federation.zero_grad()
    assert weight.grad is not None


def test_resume_goes_on_as_if_nothing_had_happened(record, tmp_path):
    whole = FakeLoop(9)
    other = Record.create({"algo": {"name": "a"}, "dataset": {"name": "b"}, "seed": 0, "out": str(tmp_path / "other")})
    fit(whole, other)

    def fail(loop):
        if loop.round == 6:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fit(FakeLoop(9, on_advance=fail), record, checkpoint_seconds=0)
    saved = torch.load(checkpoint_path(record.folder), weights_only=True)
    assert saved["federation"]["round"] == 6
    record.append({"round": 7, "train_loss": 99.0})  # as after a kill: the rows are ahead of the checkpoint

    loop = FakeLoop(9)
    _, lightning = fit(loop, record, resume=True)
    assert torch.equal(loop.server["w"], whole.server["w"])
    assert lightning.current_epoch == lightning.global_step == 9
    columns = [name for name in record.rows[0] if name != "wall_seconds"]
    resumed, straight = read(record.folder).rows, read(other.folder).rows
    assert str([[row[c] for c in columns] for row in resumed]) == str([[row[c] for c in columns] for row in straight])
    wall = [row["wall_seconds"] for row in resumed]
    assert wall == sorted(wall)


def test_a_finished_loop_is_not_advanced_by_resume(record):
    loop = FakeLoop(4)
    fit(loop, record, checkpoint_seconds=0)
    assert torch.load(checkpoint_path(record.folder), weights_only=True)["federation"]["round"] == 3
    later = FakeLoop(3)
    fit(later, record, resume=True)
    assert later.round == 3
    assert len(record.rows) == 3


def test_checkpoints_come_at_most_every_so_many_seconds(record, monkeypatch):
    written = []
    monkeypatch.setattr(AtomicCheckpoint, "save_checkpoint", lambda self, content, path, **_: written.append(content))
    fit(FakeLoop(30), record, checkpoint_seconds=3600)
    assert written == []
    fit(FakeLoop(30), record, checkpoint_seconds=0)
    assert [content["federation"]["round"] for content in written] == list(range(1, 30))


def test_a_failed_write_keeps_the_last_checkpoint(record):
    path = record.folder / "last.ckpt"
    AtomicCheckpoint().save_checkpoint({"a": 1}, path)
    with pytest.raises(Exception, match="pickle"):
        AtomicCheckpoint().save_checkpoint({"a": lambda: 2}, path)
    assert torch.load(path, weights_only=True) == {"a": 1}


def test_lightnings_own_model_checkpoint_works(record, tmp_path):
    callback = ModelCheckpoint(dirpath=tmp_path / "own", every_n_train_steps=2, save_top_k=-1)
    fit(FakeLoop(6), record, callbacks=[callback])
    assert len(list((tmp_path / "own").glob("*.ckpt"))) == 3


def test_nothing_is_said_and_nothing_written_elsewhere(record, tmp_path, monkeypatch, capfd, recwarn):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = torch.get_rng_state()
    fit(FakeLoop(3), record, checkpoint_seconds=0)
    assert capfd.readouterr() == ("", "")
    assert [w for w in recwarn if "lightning" in w.filename] == []
    assert list((tmp_path / "here").iterdir()) == []
    assert sorted(path.name for path in record.folder.rglob("*")) == [
        *("checkpoints", "config.yaml", "last.ckpt", "metrics.csv", "timeline.csv")
    ]
    assert torch.equal(torch.get_rng_state(), before)
