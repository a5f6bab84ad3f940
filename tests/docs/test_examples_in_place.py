"""The files in docs/examples/, put in place, are part of the benchmark: lists have them, suites cover them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.running import ROOT, printed

EXAMPLES = ROOT / "docs/examples"
FOLDERS = ("algorithms", "bench", "datamodules", "sweeps", "leaderboards", "tests", "docs")
HOMES = {
    "fedavgm.py": "algorithms",
    "cancer.py": "datamodules",
    "halves.py": "datamodules",
    "people.py": "datamodules",
    "paper/example.yaml": "bench/conf/protocol",
    "paper/example.csv": "leaderboards/claims",
    "paper/example.py": "sweeps",
}
CLAIM = "example/table-1/scaffold-vs-fedavg/digits/classes=2/accuracy_gain"
CONTRACT = (
    *(f"tests/leaderboards/test_{name}.py" for name in ("ledger", "claim_commands", "site", "verdict", "check")),
    *(f"tests/bench/prepare/test_{name}.py" for name in ("resolve", "registry")),
    *(f"tests/datamodules/test_data_{name}.py" for name in ("contract", "partition")),
    *("tests/algorithms/test_contract.py", "tests/sweeps/test_sweep_plan.py"),
)
MINE = "fedavgm or cancer or halves or people or example or paper or claim or sweep or protocol or place"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this one with the examples where they belong and nothing else changed, all of it committed."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "pictures"))
    for name in ("bench.py", "pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder / name)
    for name, home in HOMES.items():
        assert not (folder / home / Path(name).name).exists()
        shutil.copy(EXAMPLES / name, folder / home)
    shutil.copy(ROOT / ".gitignore", folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "A paper")
    return folder


def run(checkout: Path, *words: str) -> str:
    return printed(*words, root=checkout, cwd=checkout)


def git(folder: Path, *words: str | Path) -> None:
    subprocess.run(["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x", *words], check=True)


def test_the_paper_is_found_without_torch_and_each_claim_has_its_commands_and_its_arithmetic(checkout: Path) -> None:
    code = (
        "import sys, leaderboards.__main__ as m\n"
        "for words in (['command', sys.argv[1]], ['claims', '--paper', 'example']):\n"
        "    sys.argv = ['leaderboards', *words]\n"
        "    assert m.main() == 0\n"
        "print('torch' in sys.modules)\n"
    )
    lines = run(checkout, "-c", code, CLAIM).splitlines()
    assert lines[0] == f"{CLAIM}: 5.7 % relative" and lines[2] == "seeds      0, 1, 2"
    assert lines[3] == "all        python -m sweeps example/table1 dataset=digits method=scaffold,fedavg"
    assert lines[4].endswith("python bench.py algo=scaffold dataset=digits protocol=example scale=paper seed=0")
    verdicts = {line.split()[0]: line for line in lines[6:] if line.startswith("example/")}
    assert len(verdicts) == 3 and "consistent  92.0 % against 87.0 %, Table 1: 5.7471" in verdicts[CLAIM]
    assert lines[-1] == "False"


def test_a_run_becomes_a_cell_of_the_site(checkout: Path, tmp_path: Path) -> None:
    """As a user does it: the command that a claim names, `add`, `build`; then the number is where the claim is."""
    mine, claim = tmp_path / "mine", "example/table-1/fedavg/digits/classes=2/final_accuracy"
    git(checkout, "clone", "-q", checkout, mine)
    command = next(line for line in run(mine, "-m", "leaderboards", "command", claim).splitlines() if "1 of 2" in line)
    done = run(mine, *command.partition("python ")[2].split(), "logger=none")
    measured = float(re.findall(r"accuracy ([\d.]+) %", done)[0])
    assert "added  results/" in run(mine, "-m", "leaderboards", "add", "runs")
    run(mine, "-m", "leaderboards", "build", "--out", "site")
    page = (mine / "site/example.html").read_text(encoding="utf-8")
    (cell,) = re.findall(rf'<td class="cell[^>]*><a href="#c-{re.escape(claim)}".*?</td>', page)
    shown = re.search(r'"claimed">87.0 %</span><span class="measured">([\d.]+)</span>', cell)
    assert shown and float(shown[1]) == pytest.approx(measured, abs=0.05)


@pytest.mark.slow
def test_what_the_page_says_to_type_shows_the_paper(checkout: Path) -> None:
    """The commands of own_paper.md's first block; the last is the suites below; the second block needs a commit."""
    block = (ROOT / "docs/own_paper.md").read_text(encoding="utf-8").split("```")[1]
    *lines, suites = [shlex.split(line, comments=True) for line in block.strip().splitlines()]
    assert suites[1:4] == ["-m", "pytest", "-q"] and {word[0] for word in lines} == {"python"}
    helped, listed, dry, smoke, claims, command, _ = (run(checkout, *words[1:]) for words in lines)
    for line in ("fedavgm       FedAvgM", "cancer        breast", "halves        Two", "example       Example, fed"):
        assert f"\n  {line}" in helped
    assert "example/table1         6 runs" in listed and len(dry.splitlines()) == 6
    assert "6/6 finished, 0 running, 0 failed" in smoke
    assert claims.count("\nexample/") == 3 and "protocol=example scale=paper seed=0" in command
    assert "fedbench 2026" in (checkout / "build/leaderboard/example.html").read_text(encoding="utf-8")
    assert 'href="example.html"' in (checkout / "build/leaderboard/index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_papers_runs_become_results_although_its_smoke_run_lies_in_the_checkout(
    checkout: Path, tmp_path: Path
) -> None:
    """The commands of own_paper.md's second block but the last, which runs every method; one seed."""
    mine = tmp_path / "mine"
    git(checkout, "clone", "-q", checkout, mine)
    run(mine, "-m", "sweeps", "example/table1", "scale=smoke", "seed=0", "--out", "smoke")
    block = (ROOT / "docs/own_paper.md").read_text(encoding="utf-8").split("```")[3]
    sweep, add, claims, _ = [shlex.split(line) for line in block.strip().splitlines()]
    run(mine, *sweep[1:], "seed=0")
    assert run(mine, *add[1:]).count("added  results/") == 2
    assert run(mine, "-m", "leaderboards", "add", "runs/example-table1-seed=0").count("there already") == 2
    assert run(mine, *claims[1:]).count("\nexample/") == 3


@pytest.mark.slow
def test_the_method_runs_on_the_data_set_with_the_partition(checkout: Path) -> None:
    assert "455 + 114 samples, 2 classes; sklearn (bundled)" in run(checkout, "-m", "datamodules", "list", "cancer")
    words = ("algo=fedavgm", "partition=halves", "dataset=cancer", "logger=none", "rounds=2")
    assert "halves(share=0.5)" in run(checkout, "bench.py", *words)


@pytest.mark.slow
def test_the_suites_cover_the_examples_without_naming_them(checkout: Path) -> None:
    text = run(checkout, "-m", "pytest", "-q", "-rA", *CONTRACT, "-k", MINE, "-m", "not slow and not data")
    passed = [line for line in text.splitlines() if line.startswith("PASSED")]
    for name in ("test_contract.py", "test_data_contract.py", "test_data_partition.py", "test_resolve.py"):
        of_file = [line for line in passed if name in line]
        assert any(any(word in line for word in ("fedavgm", "cancer", "halves", "example")) for line in of_file), name
    assert any("test_sweep_plan.py" in line and "example/table1" in line for line in passed)
