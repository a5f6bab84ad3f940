"""What the pages of the site are made of: files that exist, scripts as they are, a page for a method nobody listed."""

from __future__ import annotations

import re
from dataclasses import dataclass

import lines
import pytest

from algorithms.base import Algorithm
from algorithms.fedprox import FedProx
from bench import trust
from bench.own_code import load_file
from bench.prepare.registry import classes

DOCS = lines.ROOT / "docs"
FILE = re.compile(r"\b(?:algorithms|bench|datamodules|sweeps|leaderboards|tests)/[\w/.]*\w(?:\.\w+|/)")


@pytest.fixture(scope="module")
def hooks():
    trust.name(str(DOCS / "hooks.py"))
    return load_file(DOCS / "hooks.py")


def test_the_files_that_the_architecture_names_exist() -> None:
    named = set(FILE.findall((DOCS / "architecture.md").read_text(encoding="utf-8")))
    assert len(named) > 20
    assert [name for name in named if not (lines.ROOT / name).exists()] == []


def test_the_script_on_the_page_is_the_script() -> None:
    script = (DOCS / "examples/compare.py").read_text(encoding="utf-8")
    assert f"```python\n{script}```" in (DOCS / "analysis.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", classes("algo"))
def test_every_method_has_its_formula_and_its_terms(hooks, name: str) -> None:
    page = hooks.method(name, classes("algo")[name], [])
    for section in ("What each method uses of the interface", "The formulas"):
        assert hooks.row(section, name), f"docs/methods.md, {section!r}: its table has no row for {name}; add one"
    formula = page[page.index("## Formula") : page.index("## What it uses")]
    assert "- a device's step: " in formula and "- the server's step: " in formula
    assert "- schedule (concurrency, buffer): " in page
    assert "\nDeviations" in page and "## The code" in page


def test_a_page_shows_readings_as_a_list_and_fields_with_bounds(hooks) -> None:
    page = hooks.method("fedlga", classes("algo")["fedlga"], [])
    assert "open):\n\n- `gradient`" in page
    assert "| `algo.gamma` | 0.0 | >= 0, < 1 |" in page


def test_a_method_that_no_table_lists_gets_a_page_all_the_same(hooks) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mine(FedProx):
        """One of mine.

        Deviations: none.
        """

    Mine.__module__ = FedProx.__module__
    page = hooks.method("mine", Mine, [])
    assert "# mine\n\nOne of mine." in page and "- `local`" in page and "- `upload`" not in page
    assert hooks.own_hooks(Algorithm) == "Nothing: it is FedAvg."
