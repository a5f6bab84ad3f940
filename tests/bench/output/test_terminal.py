"""What a user meets at the terminal before and around a run: verbs, plain output, completion, the next command."""

from __future__ import annotations

import io
import sys

import pytest

from bench import __main__ as bench_tools
from bench.main import command
from bench.output.progress import Progress
from datamodules import __main__ as data_tools
from datamodules.cache import Line
from leaderboards import __main__ as leaderboards_tools
from sweeps import __main__ as sweeps_tools

VERBS = {
    "bench": (bench_tools.VERBS, lambda: bench_tools.main([])),
    "datamodules": (data_tools.VERBS, lambda: data_tools.main([])),
    "sweeps": (sweeps_tools.VERBS, sweeps_tools.main),
    "leaderboards": (leaderboards_tools.VERBS, leaderboards_tools.main),
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("module", VERBS)
def test_without_arguments_a_module_shows_its_verbs_with_a_line_each(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs, main = VERBS[module]
    monkeypatch.setattr(sys, "argv", [f"python -m {module}"])
    monkeypatch.setenv("COLUMNS", "60")
    assert main() == 0
    shown = capsys.readouterr().out.splitlines()
    for verb in verbs:
        (line,) = [line for line in shown if line.strip().startswith(f"{verb} ")]
        assert len(line.split()) > len(verb.split()) + 3
    assert f"python -m {module}" in shown[0]
    assert any("python " in line for line in shown[-2:])


def test_no_color_turns_bars_into_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        stream = Terminal()
        progress = Progress(stream)
        progress.begin(0.0)
        progress.update("round 1/2", 0.5, "accuracy 25.0 %")
        progress.end()
        return stream.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\r" in shown()
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown().startswith("round 1/2, accuracy 25.0 %, ") and "\r" not in shown() and "━" not in shown()


def test_a_download_draws_on_a_terminal_only_and_not_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stream, seen in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        Line().show("3 MB")
        assert ("3 MB" in stream.getvalue()) is seen
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    Line().show("3 MB")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("algo=fedp", {"algo=fedprox"}),
        ("partition=dirichlet partition.al", {"partition.alpha="}),
        ("devices=level", {"devices=level1", "devices=level2", "devices=level3"}),
    ],
)
def test_the_shell_completes_keys_and_values(
    typed: str, offered: set[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_LINE", f"python bench.py {typed}")
    assert command(["-sc", "query=bash"]) == 0
    assert set(capsys.readouterr().out.split()) == offered


def test_completion_is_installed_for_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["-sc", "install=bash"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("-F hydra_bash_completion python")
