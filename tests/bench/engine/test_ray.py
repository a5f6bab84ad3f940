"""Ray actors: the same bits as one process, also when one is killed; and clear words where there is no cluster."""

import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench.engine import ray as actors
from bench.engine.steps import Steps
from bench.errors import UserError
from bench.main import command
from bench.prepare import compose
from bench.prepare.assemble import build, remote_service

ROOT = Path(__file__).parents[3]
SMALL = ["dataset=digits", "clients=12", "cohort=6", "rounds=3", "epochs=2", "test_samples=100", "logger=none"]
PROGRAM = """
import sys
import ray
from bench.output import facts
from bench.prepare.assemble import build
from bench.record import TIMES
from bench.prepare import compose

def outcome(parts, kill=False):
    rows = []
    while not parts.loop.finished:
        row = parts.loop.advance()
        rows.append({name: str(value) for name, value in row.items() if name not in TIMES})
        if kill and parts.loop.round == 1:
            ray.kill(parts.workers.actors[0])
    figures = parts.evaluate(True)
    parts.workers.close()
    return facts.digest(parts.loop.server["w"]), rows, figures

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[1])
for keys in (["algo=fedagg"], ["algo=fedbabu", "partition=classes", "partition.per_client=3"]):
    keys = [*sys.argv[2:], *keys]
    parts = build(compose.config([*keys, "engine.workers=2", "engine.address=auto"]))
    assert parts.workers.count == 2 and parts.loop.engine.parallel_parts == 2
    assert outcome(parts, kill=True) == outcome(build(compose.config(keys))), keys
    print("same", flush=True)
"""


def needs_ray():
    return pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install .[ray]"
    )


@pytest.mark.slow
@needs_ray()
def test_two_actors_one_of_them_killed_give_the_bits_of_one_process():
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # Ray's sockets need a short path
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, folder, *SMALL],
            env={**os.environ, "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled", "HOME": folder},
            capture_output=True,
            text=True,
            timeout=900,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("same") == 2
    assert done.stderr.count("warning: a Ray actor died") == 2


def test_messages_come_out_as_they_went_in():
    rows = torch.arange(6.0).expand(4, 6)
    found = actors.unpack(actors.pack({"rows": rows, "one": torch.tensor(2.0).expand(3), "none": torch.zeros(0, 2)}))
    assert torch.equal(found["rows"], rows) and torch.equal(found["one"], torch.full((3,), 2.0))
    assert found["none"].shape == (0, 2)


def test_an_actor_makes_its_service_of_what_can_be_sent():
    config = compose.config(SMALL)
    parts = build(config)
    actor = actors.Actor(pickle.loads(pickle.dumps(partial(remote_service, config))))
    call = (parts.loop.server["w"][None], 0, 1)
    answer, error = actors.unpack(actor.call(*actors.pack(("test", call))))
    assert error is None
    assert torch.equal(answer, next(parts.workers.map("test", [call])))
    parts.workers.close()


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch, capsys):
    monkeypatch.setattr("bench.engine.ray.find_spec", lambda name: None)
    assert command([*SMALL, "engine.address=auto", "engine.workers=2"]) == 2
    assert "pip install '.[ray]'" in capsys.readouterr().err


@needs_ray()
@pytest.mark.parametrize("address", ["ray://127.0.0.1:9", "ray://127.0.0.1:99999"])
def test_a_cluster_that_does_not_answer_is_said_within_seconds(address):
    begin = time.monotonic()
    with pytest.raises(UserError, match=f"{address} cannot be reached"):
        actors.connect(address)
    assert time.monotonic() - begin < 60  # Ray's import on a busy machine


@needs_ray()
def test_a_machine_that_is_in_no_cluster_is_told_how_to_begin_one(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UserError, match="ray start --head"):
        actors.connect("auto")


def test_a_ray_address_is_one_of_the_keys_of_the_record():
    assert compose.config([*SMALL, "engine.address=ray://head:10001"])["engine"]["address"] == "ray://head:10001"


class LostRay:
    """A stand-in for Ray whose cluster goes away."""

    class exceptions:
        RayError = type("RayError", (Exception,), {})
        RayActorError = type("RayActorError", (RayError,), {})

    def __init__(self, error):
        self.error, self.asked = error, 0

    def wait(self, refs, num_returns, timeout):
        return refs[:1], refs[1:]

    def get(self, ref):
        self.asked += 1
        raise self.error


class Reference:
    def remote(self, *call):
        return object()


@pytest.mark.parametrize(
    ("kind", "asked"), [("RayError", 1), ("RayActorError", 1 + actors.TRIES), (ConnectionResetError, 1)]
)
def test_a_lost_cluster_is_a_sentence_that_says_how_to_go_on(kind, asked):
    error = (getattr(LostRay.exceptions, kind) if isinstance(kind, str) else kind)("The raylet is gone.\nMore.")
    workers = actors.Actors.__new__(actors.Actors)
    workers.ray, workers.count = LostRay(error), 2
    workers.service = SimpleNamespace(engine=SimpleNamespace(steps=Steps()))
    workers._actor = lambda: type("Handle", (), {"call": Reference()})
    workers.actors = [workers._actor(), workers._actor()]
    with pytest.raises(UserError, match=r"lost \(The raylet is gone\): .* resume=FOLDER.* engine.address=null") as told:
        list(workers.map("test", [(1,), (2,)]))
    assert workers.ray.asked == asked and "\n" not in str(told.value)


def test_the_cluster_that_auto_would_look_for_is_known_without_ray(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert actors._known_address() == ""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text("127.0.0.1:9\n")
    with pytest.raises(UserError, match=r"127.0.0.1:9 cannot be reached"):
        actors._reach(actors._known_address())
