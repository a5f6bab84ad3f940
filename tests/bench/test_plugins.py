"""What an algorithm or a module of the user's own does wrong: a sentence that names the hook, exit code 2."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench import trust
from bench.errors import UserError
from bench.main import command
from bench.prepare import check, compose
from bench.prepare.assemble import build
from bench.record import COLUMNS, TIMES, read_all
from bench.run import run
from bench.simulation import contract
from tests.bench.models.own_net import KEYS, NET, write

SMALL = ["dataset=digits", "clients=4", "cohort=2", "rounds=2", "epochs=1", "logger=none"]
HEAD = """import os, sys, torch
import numpy as np
from dataclasses import dataclass, replace
from typing import ClassVar
from algorithms.base import Algorithm, LocalRule, Schedule, Upload
from datamodules.base import Dataset, Loaded, Split
from datamodules.digits import Digits
from datamodules.partition import Partition

@dataclass(frozen=True, kw_only=True)
"""
NEXT = 'server["w"] + updates.weight @ updates.delta'


def hook(name: str, *body: str) -> str:
    arguments = {
        "schedule": "fed",
        "extra_up": "fed",
        "personal_rule": "fed",
        "init_server": "w, fed",
        "init_client": "w, fed",
        "sends": "version, fed",
        "local": "jobs, w, epoch, fed",
        "upload": "jobs, trained, fed",
        "aggregate": "server, updates, fed",
        "repeat_round": "server, fed",
        "report": "server, fed",
        "deployed": "server, clients, fed",
    }[name]
    return "".join(f"    {line}\n" for line in (f"def {name}(self, {arguments}):", *(f"    {line}" for line in body)))


def state(value: str) -> str:
    return hook("aggregate", f"return {value}")


ALGORITHMS = {
    # schedule
    "Schedule(-1, -1)": (hook("schedule", "return Schedule(-1, -1)"), "schedule of .*returned Schedule.*at least 1"),
    "Schedule(5, 0)": (hook("schedule", "return Schedule(5, 0)"), "schedule of .*at least 1"),
    "Schedule(2.0, 2.0)": (hook("schedule", "return Schedule(2.0, 2.0)"), "two whole numbers"),
    "no Schedule": (hook("schedule", "return 2, 2"), "schedule of .*a Schedule"),
    "too many": (
        "    K: int = 10\n" + hook("schedule", "return Schedule(fed.clients, self.K)"),
        "not 10 <= 4 <= 4: mine asks for that with algo.K=10",
    ),
    # what the class says
    "broadcast": ('    broadcast: ClassVar = "w"\n', "broadcast of .*is 'w': it has to be a tuple"),
    "extra_vectors": ('    extra_vectors: ClassVar = "c"\n', "extra_vectors of .*is 'c': it has to be a tuple"),
    "extra_vectors of nothing": (
        '    extra_vectors: ClassVar = ("c",)\n' + hook("extra_up", "return fed.layout.size"),
        "upload of .*returned no 'c' in extra: it has to be what extra_vectors names",
    ),
    "extra_vectors too short": (
        '    extra_vectors: ClassVar = ("c",)\n'
        + hook("extra_up", "return fed.layout.size")
        + hook("upload", 'd = trained.end - jobs.received; return Upload(d, extra={"c": d[:, 1:]})'),
        r'upload of .*returned extra\["c"\] = torch.float32.*it has to be torch.float32 of shape \[1, 4810\]',
    ),
    "broadcast without w": ('    broadcast: ClassVar = ("v",)\n', "every device downloads the model"),
    "personal": (
        '    personal: ClassVar = "Body"\n',
        "personal of .*is 'Body': it has to be none or body or head or all",
    ),
    "mail": ('    mail: ClassVar = "V"\n', "mail of .*one of `unicast`"),
    "requires": (
        "    @property\n    def requires(self):\n        return frozenset({'last_gradients'})\n",
        "Unknown name in requires of .*nearest: last_gradient",
    ),
    # states
    "init_server None": (hook("init_server", "w.zeros_like"), "init_server of .*mine.py:Mine failed: AttributeError"),
    "init_server": (hook("init_server", "return w"), "init_server of .*a dictionary"),
    "init_server without w": (hook("init_server", "return {'v': w}"), "a state of 'v': it has to be one with 'w'"),
    "init_server longer": (hook("init_server", "return {'w': w.repeat(2)}"), r"init_server of .*\[\"w\"\] = torch.fl"),
    "init_server in place": (hook("init_server", "return {'w': w.zero_()}"), "changed w in place"),
    "a number in the state": (hook("init_server", "return {'w': w, 't': 0}"), r"\[\"t\"\] = 0: it has to be a tensor"),
    "unicast": (
        "    unicast: ClassVar = ('u',)\n" + hook("init_server", "return {'w': w, 'u': w.new_zeros(3)}"),
        r"\[\"u\"\] = .*shape \[3\].*shape \[4, \.\.\.\]",
    ),
    "init_client": (hook("init_client", "return {'c': 0.0}"), r"init_client of .*\[\"c\"\] = 0.0"),
    # figures
    "extra_up NaN": (hook("extra_up", "return float('nan')"), "extra_up of .*returned nan"),
    "extra_up negative": (hook("extra_up", "return -7"), "extra_up of .*returned -7"),
    "extra_up float": (hook("extra_up", "return 1.5"), "extra_up of .*a whole number"),
    "sends": (hook("sends", "return torch.ones(3)"), "sends of .*torch.bool of shape"),
    "repeat_round": (hook("repeat_round", "return 1"), "repeat_round of .*returned 1: it has to be True or False"),
    **{
        f"report {name}": (hook("report", f"return {{'{name}': 1.0}}"), f"report of .*returned '{name}'")
        for name in ("bytes_up", "virtual_seconds", "train_seconds", "round", "test_accuracy", "wall_seconds")
    },
    "report text": (hook("report", "return {'a': 'b'}"), r"report of .*\[\"a\"\] = 'b': it has to be a number"),
    "report tensor": (hook("report", "return {'a': server['w']}"), "report of .*a number"),
    "report name": (hook("report", "return {'a,b': 1.0}"), "the name 'a,b'"),
    "report None": (hook("report", "pass"), "report of .*returned None: it has to be a dictionary"),
    "report changes": (
        hook("report", "return {'a' if float(server['w'].sum()) > 1e9 else f'n{os.urandom(8).hex()}': 1.0}"),
        "report of .*as before",
    ),
    "deployed": (hook("deployed", "return server['w'][:3]"), r"deployed of .*shape \[3\]"),
    "personal_rule": (hook("personal_rule", "return LocalRule()"), "personal_rule of .*a LocalRule and a number"),
    "personal_rule epochs": (hook("personal_rule", "return LocalRule(), 0"), "personal_rule of"),
    # local
    "local None": (hook("local", "pass"), "local of .*returned None: it has to be a LocalRule"),
    "local lr": (hook("local", "return LocalRule(lr=0.1)"), "local of .*lr = 0.1: it has to be None or a tensor of"),
    "local lr shape": (hook("local", "return LocalRule(lr=torch.ones(7))"), r"local of .*shape \[7\]"),
    "local lr NaN": (hook("local", "return LocalRule(lr=w.new_full((len(w),), torch.nan))"), r"lr = nan at \[0\]"),
    "local scale": (hook("local", "return LocalRule(scale=float('inf'))"), "scale = inf"),
    "local prox": (hook("local", "return LocalRule(prox='1')"), "prox = '1'"),
    "local sam": (hook("local", "return LocalRule(sam=-1.0)"), "sam = -1.0"),
    "local drift": (hook("local", "return LocalRule(drift=w[0])"), "drift = torch.float32"),
    "local drift dtype": (hook("local", "return LocalRule(drift=w.half())"), "drift = torch.float16"),
    "local mask": (hook("local", "return LocalRule(mask=torch.ones(3, dtype=torch.bool))"), r"mask = .*shape \[3\]"),
    "local mask dtype": (hook("local", "return LocalRule(mask=torch.ones_like(w[0]))"), "mask = torch.float32"),
    "local in place": (hook("local", "w.mul_(0.5)", "return LocalRule()"), "local of .*changed w in place"),
    # upload
    "upload None": (hook("upload", "pass"), "upload of .*returned None: it has to be an Upload"),
    "upload delta": (hook("upload", "return Upload(trained.end[0])"), "upload of .*delta = torch.float32"),
    "upload half": (hook("upload", "return Upload(trained.end.half())"), "upload of .*delta = torch.float16"),
    "upload NaN": (hook("upload", "return Upload(trained.end / 0)"), "upload of .*has to be finite"),
    "upload in place": (
        hook("upload", "return Upload(trained.end.sub_(jobs.received))"),
        "upload of .*changed trained.end in place",
    ),
    "upload through numpy": (
        hook("upload", "trained.end.numpy()[:] = 0", "return Upload(trained.end - jobs.received)"),
        "upload of .*changed trained.end in place",
    ),
    "upload memory": (
        hook("upload", "return Upload(trained.end - jobs.received, memory={'c': trained.end})"),
        "upload of .*memory of 'c': it has to be what init_client knows, nothing",
    ),
    "upload extra": (
        hook("upload", "return Upload(trained.end - jobs.received, extra={'g': trained.end})"),
        "numbers beside the model: it has to be at most 0, which extra_up says",
    ),
    "upload extra rows": (
        hook("upload", "return Upload(trained.end - jobs.received, extra={'g': torch.ones(9, 1)})"),
        r'extra\["g"\] = ',
    ),
    # aggregate
    "aggregate None": (hook("aggregate", "pass"), "aggregate of .*returned None: it has to be a dictionary"),
    "no w": (state("{}"), "aggregate of .*returned a state of nothing: it has to be one of 'w'"),
    "more": (state(f"{{'w': {NEXT}, 'v': server['w']}}"), "a state of 'w', 'v'"),
    "an int": (state("{'w': 3}"), r"\[\"w\"\] = 3"),
    "shape": (state(f"{{'w': ({NEXT})[:-1]}}"), r"aggregate of .*\[\"w\"\] = torch.float32 of shape"),
    "half": (state(f"{{'w': ({NEXT}).half()}}"), "torch.float16"),
    "double": (state(f"{{'w': ({NEXT}).double()}}"), "torch.float64"),
    "NaN": (state(f"{{'w': ({NEXT}) * torch.nan}}"), r"\[\"w\"\] = nan at \[0\]: it has to be finite"),
    "gradient": (state(f"{{'w': ({NEXT}).requires_grad_()}}"), "with a gradient"),
    "in place": (
        hook("aggregate", "server['w'] += updates.weight @ updates.delta", "return server"),
        r'aggregate of .*mine.py:Mine changed server\["w"\] in place',
    ),
    "in place by data": (
        hook("aggregate", "server['w'].data.add_(updates.weight @ updates.delta)", "return server"),
        "changed server",
    ),
    "another key": (
        hook("aggregate", "server['v'] = server['w'] * 1", "return server"),
        r'changed server\["v"\] in place',
    ),
    "deltas": (hook("aggregate", "updates.delta.mul_(2)", f"return {{'w': {NEXT}}}"), "changed updates.delta"),
}


@cache
def composed() -> dict[str, Any]:
    return compose.config(SMALL)


def one_sentence(capsys: pytest.CaptureFixture[str], words: list[str], pattern: str, lines: int = 1) -> None:
    assert command(words) == 2
    err = "".join(line for line in capsys.readouterr().err.splitlines(True) if not line.startswith("round "))
    assert err.startswith("error: ") and err.count("\n") <= lines, err
    assert re.search(pattern, err.partition("\n")[0]), err


@pytest.mark.parametrize("case", ALGORITHMS)
def test_what_a_method_returns_is_refused_by_the_name_of_its_hook(case: str) -> None:
    text, pattern = ALGORITHMS[case]
    Path("mine.py").write_text(f"{HEAD}class Mine(Algorithm):\n    pass\n{text}")
    trust.name(f"{Path.cwd()}/mine.py:Mine")
    config = composed() | {"algo": {"name": "mine", "_target_": f"{Path.cwd()}/mine.py:Mine"}}
    with pytest.raises(UserError, match=pattern):
        check.config(config)
        run(config)
    assert not any(run.rows for run in read_all(Path("runs")) if "changes" not in case)  # before round 1


def test_the_names_of_the_loops_columns_are_all_taken() -> None:
    row = build(compose.config(SMALL)).loop.advance()
    assert {*row, *COLUMNS, *TIMES} <= contract.COLUMNS


def test_one_round_is_not_repeated_for_ever(monkeypatch, capsys) -> None:
    monkeypatch.setattr(contract, "REPEATS", 5)
    Path("mine.py").write_text(f"{HEAD}class Mine(Algorithm):\n{hook('repeat_round', 'return True')}")
    one_sentence(capsys, ["algo=./mine.py", *SMALL], "repeat_round of .*has asked for one round 5 times: it must end")


RAISING = ("schedule", "init_server", "init_client", "sends", "extra_up", "local", "upload", "aggregate")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, "sys.exit(0)") for name in (*RAISING, "repeat_round", "report", "deployed", "personal_rule")),
        *(("aggregate", fault) for fault in ("raise KeyError('lost')", "raise StopIteration")),
    ],
)
def test_what_a_hook_raises_is_a_sentence_and_five_lines(name: str, fault: str, capsys) -> None:
    Path("mine.py").write_text(f"{HEAD}class Mine(Algorithm):\n{hook(name, '# here', fault)}")
    one_sentence(capsys, ["algo=./mine.py", *SMALL], f"{name} of .*mine.py:Mine failed: .*line 14 of mine.py", 6)


LATE = 'if int(jobs.version.max()) > 3: raise RuntimeError("late")'


@pytest.mark.parametrize("workers", [1, 2])
def test_a_later_round_and_a_worker_process_say_the_same(workers: int, capsys) -> None:
    Path("mine.py").write_text(f"{HEAD}class Mine(Algorithm):\n{hook('local', LATE, 'return LocalRule()')}")
    words = ["algo=./mine.py", *SMALL, "rounds=6", f"engine.workers={workers}"]
    one_sentence(capsys, words, "local of .*mine.py:Mine failed: RuntimeError: late .line 13 of mine.py", 6)
    (run,) = read_all(Path("runs"))
    assert len(run.rows) == 4


def test_a_multirun_goes_on_after_a_method_that_leaves(capsys) -> None:
    Path("mine.py").write_text(f"{HEAD}class Mine(Algorithm):\n{hook('aggregate', 'sys.exit(0)')}")
    assert command(["-m", "algo=./mine.py,fedavg", *SMALL]) == 2
    assert "aggregate of" in capsys.readouterr().err
    assert [run.config["algo"]["name"] for run in read_all(Path("runs")) if run.result] == ["fedavg"]


MODULES = {
    "NaN": ("return self.net(x)", "return self.net(x) / 0", "forward of Net gives logits that are not finite"),
    "whole": ("return self.net(x)", "return self.net(x).long()", "forward of Net gives logits of torch.int64"),
    "exit": ("return self.net(x)", "raise SystemExit(0)", "forward of Net failed: SystemExit: 0"),
    "complex": ("self.net = ", "self.c = nn.Parameter(torch.zeros(1) * 1j)\n        self.net = ", "complex parameters"),
}


@pytest.mark.parametrize("case", MODULES)
def test_what_a_module_gives_is_refused(case: str, capsys) -> None:
    old, new, pattern = MODULES[case]
    assert old in NET
    write(NET.replace(old, new))
    one_sentence(capsys, KEYS, pattern, 6)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_module_that_fails_in_a_later_step_is_told(workers: int, capsys) -> None:
    late = "self.n = getattr(self, 'n', 0) + 1\n        assert self.n < 150, 'late'\n        return self.net(x)"
    write(NET.replace("return self.net(x)", late))
    one_sentence(capsys, [*KEYS, "rounds=6", f"engine.workers={workers}"], "forward of .*Error: late", 6)


def test_inputs_are_looked_at_once(monkeypatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(contract, "Inputs", lambda **given: seen.append(next(iter(given))) or Nothing())
    loop = build(compose.config([*SMALL, "rounds=4"])).loop
    loop.advance()
    first = len(seen)
    for _ in range(3):
        loop.advance()
    assert first >= 4 and len(seen) == first


class Nothing:
    def unchanged(self, look: object) -> None:
        pass
