"""What every refusal of the command has to be."""

from __future__ import annotations

import pytest

from bench.main import command


def assert_refused(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is run; exit code 2, and one sentence that has these words."""
    monkeypatch.setattr("bench.main.job", lambda *given: pytest.fail("it ran"))
    assert command(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and err.endswith(".\n")
    for word in words:
        assert word in err
