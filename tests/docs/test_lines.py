"""Every command that README and docs show is one that the programs understand; test_lines_run.py runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import lines
import pytest

from bench import __main__ as bench_tools
from bench.errors import Parser
from bench.main import parse
from bench.prepare import compose, registry
from bench.record import Record
from datamodules.__main__ import VERBS as DATA_VERBS
from datamodules.catalogue import data_sets
from leaderboards import __main__ as leaderboards_tools
from leaderboards.commands import find as find_claim
from sweeps import __main__ as sweeps_tools
from sweeps import overhead
from sweeps.plan import find as find_sweep

CLAIM = "fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.8e+e=5/rounds_to_target"
STAND_INS = {
    "CLAIM": CLAIM,
    "algo=yours": "algo=fedavg",
    "dataset=yours": "dataset=digits",
    "task=yours": "task=regression",
    "partition=yours": "partition=iid",
    "upload=yours": "upload=topk",
    # the example of own_paper.md, which is not in place here
    "example": "fedlga",
    "example/table1": "fedlga/table4",
    "example/table-1/scaffold/digits/classes=2/final_accuracy": CLAIM,
}
EVERY = lines.every()


class Understood(Exception):
    """Raised by a parser that has understood its arguments, before anything is done."""

    def __init__(self, args: Namespace) -> None:
        super().__init__()
        self.namespace = args


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the commands are given: docs/ is there, and parsers stop once they have understood."""
    shutil.copytree(lines.ROOT / "docs/examples", tmp_path / "docs/examples")
    for name in ("parse_args", "parse_intermixed_args"):
        real = getattr(Parser, name)

        def parse(self, argv=None, real=real, **more):
            raise Understood(real(self, argv))

        monkeypatch.setattr(Parser, name, parse)


def understood(argv: list[str], main) -> Namespace:
    with pytest.raises(Understood) as found:
        main(argv)
    return found.value.namespace


def bench(keys: list[str]) -> None:
    args = parse(keys)
    if args.help or args.shell_completion:
        return
    if keys == ["resume=runs/ID"]:
        record = Record.create(compose.config(["out=runs"]))
        record.close()
        args.words = [f"resume={record.folder}"]
    assert compose.plan([fewer(key) for key in args.words], args.multirun)


def fewer(key: str) -> str:
    """One seed, and of many methods the first and the last: a composition takes a tenth of a second."""
    name, _, values = key.partition("=")
    if name == "seed":
        return key.partition(",")[0]
    if name == "algo" and "," in values:
        assert {value for value in values.split(",") if not value.endswith(".py")} <= set(registry.classes("algo"))
        return f"algo={values.partition(',')[0]},{values.rpartition(',')[2]}"
    return key


def sweeps(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sweeps", *argv])
    words = understood(argv, lambda _: sweeps_tools._verb()).words
    keys, _ = sweeps_tools._sampler(words)
    if keys[:1] == ["list"]:
        assert sweeps_tools._matching(keys[1:])
    elif keys and keys != ["campaign"]:
        name, *given = keys[1:] if keys[0] in ("results", "dashboard") else keys
        compose.config(list(find_sweep(name, given).runs[0].overrides))


def tool(module: str, argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """python -m module argv, up to where it would begin to work."""
    if module == "datamodules":
        assert argv[0] in DATA_VERBS and set(argv[1:]) <= set(data_sets())
    elif module == "bench" and not argv:
        assert bench_tools.main(argv) == 0
    elif module == "bench":
        args = understood(argv, bench_tools._verb)
        if argv[0] == "partition":
            compose.config(args.keys)
    elif module == "leaderboards":
        monkeypatch.setattr(sys, "argv", ["leaderboards", *(argv if argv != ["add"] else ["add", "runs/ID"])])
        args = understood(argv, lambda _: leaderboards_tools._verb())
        if args.verb == "command":
            find_claim(args.claim)
    elif module == "pytest":
        assert all((lines.ROOT / word).exists() for word in argv if word.startswith("tests/"))
    elif module == "sweeps.overhead":
        monkeypatch.setattr(sys, "argv", ["overhead", *argv])
        understood(argv, lambda _: overhead.main())
    else:
        assert module == "sweeps"
        sweeps(argv, monkeypatch)


@pytest.mark.parametrize("line", EVERY, ids=lambda line: f"{line.page}: {line.text[:60]}")
def test_the_command_is_understood(line: lines.Line, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = (STAND_INS.get(word, word) for word in line.words())
    if line.text.startswith("make "):
        assert subprocess.run(["make", "-n", "-C", lines.ROOT, first], capture_output=True).returncode == 0
    elif first == "-m":
        tool(rest[0], rest[1:], monkeypatch)
    elif Path(first).name == "bench.py":
        with registry.borrowed():
            bench(rest)
    else:
        assert Path(first).exists()


def test_lines_are_found_in_blocks_and_text_with_the_reason_why_one_is_not_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Try `python -m sweeps list`.\n<!-- not run (fetch): needs a network -->\n```\npython -m datamodules list\n"
        "python -m datamodules fetch mnist # a comment\n```\n<!-- not run: needs a GPU -->\n```\npython bench.py\n```\n"
        "```text\npython is a snake\n```\n```\nmake bench\n```\n"
    )
    found = lines.lines(page)
    assert [(line.shown, line.reason) for line in found] == [
        *((False, None), (True, None), (True, "needs a network"), (True, "needs a GPU"), (True, None))
    ]
    assert found[2].words() == ["-m", "datamodules", "fetch", "mnist"]


def test_the_pages_that_show_commands_are_all_looked_at() -> None:
    pages = {line.page for line in EVERY}
    assert {"README.md", "CONTRIBUTING.md", "index.md", "sweeps.md", "ledger.md", "own_model.md"} <= pages
    assert len(EVERY) > 70
