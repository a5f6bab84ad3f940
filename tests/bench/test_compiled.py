"""What is compiled at installation is used only where it is that of the source."""

import os

import pytest

from bench import compiled


@pytest.fixture(autouse=True)
def _loaded_anew():
    compiled.library.cache_clear()
    yield
    compiled.library.cache_clear()


def test_what_was_built_from_another_source_is_not_used(tmp_path, monkeypatch):
    if isinstance(compiled.library(), str):
        pytest.skip(compiled.library())
    compiled.library.cache_clear()
    (tmp_path / "new.c").touch()
    os.utime(tmp_path / "new.c", (2**33, 2**33))
    monkeypatch.setattr(compiled, "SOURCES", tmp_path)
    assert "run make setup" in compiled.library()


def test_without_a_compiler_there_is_a_reason_instead(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "C compiler" in compiled.library()


@pytest.mark.skipif("FEDBENCH_COMPILER" not in os.environ, reason="a C compiler is not required here")
def test_in_ci_it_was_built():
    assert not isinstance(compiled.library(), str)
