"""The claims: all there, named after what they are, refused when something is off."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.prepare.registry import classes
from leaderboards import ledger, papers
from leaderboards.ledger import COLUMNS, NEVER, Claim, load, slug, validate
from leaderboards.page.layout import named
from leaderboards.papers import LedgerError

FOUR = {"fedagg": 263, "fed2a": 194, "fedlga": 143, "fedlc": 91}
ROOT = Path(__file__).parents[2]
GOOD = Claim(
    *("fedlga/table-v/fedavg/fmnist/rho=0.5+e=5/rounds_to_target", "fedlga", "Table V", "fedavg", "fmnist"),
    *("rho=0.5;E=5", "rounds_to_target", "116", "rounds"),
)


def test_all_claims_of_the_four_papers_are_there():
    claims = [claim for claim in load() if claim.paper in FOUR]
    assert Counter(claim.paper for claim in claims) == FOUR
    assert len({claim.id for claim in claims}) == sum(FOUR.values())
    assert sum(claim.printed == NEVER for claim in claims) == 3  # Fed2A's targets on GTSRB that three methods missed
    assert Counter(claim.paper for claim in claims if claim.is_ordinal) == {"fedlga": 29, "fedlc": 12, "fedagg": 8}


def test_texts_have_the_number_of_claims():
    count, orderings = sum(FOUR.values()), sum(claim.is_ordinal for claim in load() if claim.paper in FOUR)
    for name, words in (
        ("README.md", f"Four papers make {count} claims, "),
        ("README.md", f"{count} claims, "),
        ("docs/first_ten_minutes.md", f"{count} claims, "),
        ("docs/ledger.md", f"one row per claim: {count - orderings} numbers that the four papers print as results"),
        ("docs/ledger.md", f"and {orderings} orderings that they state without one"),
        ("docs/ledger.md", f"- **Claims**: {count}, "),
        ("CHANGELOG.md", f"{count} claims with ids"),
    ):
        assert words in (ROOT / name).read_text(encoding="utf-8"), (name, words)


def test_a_name_is_readable_and_needs_no_quotes():
    for claim in load():
        assert re.fullmatch(r"[a-z0-9._=+/-]+", claim.id)
        assert claim.id.count("/") == 5
    names = {claim.id: claim.text for claim in load()}
    assert names["fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.2e+e=5/rounds_to_target"] == "29 rounds"
    assert names["fed2a/table-4/plu-300-10-8/gtsrb/r=300/upload_to_target"] == "1.37 GB"
    assert names["fedagg/table-iii/fedagg/mnist/model=linear+dist=non-iid+participation=20/final_accuracy"] == "89.45 %"
    assert names["fedlc/sec-5.2.1/fedlc/cifar10/degree-1+simulation+target=0.6/virtual_seconds_to_target"] == "1843 s"


def test_printed_digits_are_kept():
    half = {claim.printed: claim.half for claim in load() if claim.paper == "fed2a"}
    assert half["87.50"] == pytest.approx(0.005)
    assert half["84.6"] == pytest.approx(0.05)
    assert half["206592"] == 0  # a count


def test_slug_drops_what_a_shell_would_touch():
    assert slug("Fig. 5(b) text", "-", "a;B=20%") == "fig-5-b-text/any/a+b=20"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": "x"}, "has to be named"),
        ({"printed": "nan"}, "is not a number"),
        ({"printed": "-3"}, "is not a number"),
        ({"printed": "inf"}, "is not a number"),
        ({"printed": ""}, "is not a number"),
        ({"printed": "0"}, "above 0"),
        ({"printed": "1.5"}, "is not a count"),
        ({"unit": "s"}, "is not given in 's' but in 'rounds'"),
        ({"metric": "speed"}, "unknown metric speed; there are final_accuracy"),
        ({"metric": "unit_cost", "unit": "MB"}, "unit_cost is defined by fed2a, for it alone"),
        ({"metric": "final_accuracy", "unit": "%", "printed": "101"}, "at most 100"),
        ({"metric": "final_accuracy", "unit": "", "printed": "60.1"}, "at most 1"),
        ({"metric": "final_accuracy", "unit": "%", "printed": "never"}, "is not possible"),
        ({"printed": "better"}, "is not a number"),
        ({"metric": "rounds_order", "unit": "", "printed": "better"}, "needs two methods or settings vs each other"),
        ({"metric": "rounds_order", "unit": "", "method": "a vs b"}, "'116' is not better, worse or similar"),
        ({"metric": "rounds_order", "method": "a vs b", "printed": "better"}, "is not given in 'rounds' but in ''"),
    ],
)
def test_a_wrong_row_is_refused(changes, reason):
    claim = replace(GOOD, **changes)
    if "id" not in changes:
        columns = (claim.paper, claim.where, claim.method, claim.dataset, claim.setting, claim.metric)
        claim = replace(claim, id=slug(*columns))
    with pytest.raises(LedgerError, match=reason):
        validate([claim])


def test_two_claims_of_one_name_are_refused():
    validate([GOOD, replace(GOOD, dataset="cifar10", id=GOOD.id.replace("fmnist", "cifar10"))])
    with pytest.raises(LedgerError, match="twice"):
        validate([GOOD, GOOD])


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Folders for a paper's files, in the place of this checkout's."""
    for module, home in ((ledger, tmp_path), (papers, tmp_path)):
        monkeypatch.setattr(module, "files", lambda package, home=home: home / package)
    (tmp_path / "leaderboards/claims").mkdir(parents=True)
    (tmp_path / "bench/conf/protocol").mkdir(parents=True)
    for cached in (load, papers.papers):
        cached.cache_clear()
    yield tmp_path
    for cached in (load, papers.papers):
        cached.cache_clear()


HEAD = ",".join(COLUMNS)
ROW = "mine/table-1/fedavg/digits/any/final_accuracy,mine,Table 1,fedavg,digits,,final_accuracy,90.1,%"
ABOUT = "name: mine\npaper: Mine\ntitle: A title\nvenue: A venue 2026\nmethods: [fedprox]\n"


def test_a_paper_is_a_file_of_claims_and_its_protocol(house):
    (house / "leaderboards/claims/mine.csv").write_text(f"{HEAD}\n{ROW}\n")
    (house / "bench/conf/protocol/mine.yaml").write_text(ABOUT)
    assert [claim.text for claim in load()] == ["90.1 %"]
    paper = papers.papers()["mine"]
    assert (paper.name, paper.title, paper.venue) == ("Mine", "A title", "A venue 2026")
    assert paper.owns("fedprox") and not paper.owns("fedavg")


@pytest.mark.parametrize(
    ("claims", "protocol", "reason"),
    [
        (f"{HEAD}\n{ROW}\n", None, r"claims/mine\.csv has no protocol: write bench/conf/protocol/mine\.yaml"),
        (f"{HEAD}\n{ROW}\n", "name: [", "not readable as a table"),
        (f"{HEAD}\n{ROW}\n", "name: mine\npaper: Mine\n", "does not say its title, venue, own"),
        (f"{HEAD}\n{ROW},x\n", ABOUT, "has 10 columns, not 9"),
        ("", ABOUT, "has the columns"),
        (f"{HEAD}\n{ROW.replace('mine', 'other')}\n", ABOUT, "a claim of another paper"),
    ],
)
def test_a_paper_with_a_mistake_gets_one_sentence(house, claims, protocol, reason):
    (house / "leaderboards/claims/mine.csv").write_text(claims)
    if protocol is not None:
        (house / "bench/conf/protocol/mine.yaml").write_text(protocol)
    with pytest.raises(LedgerError, match=reason):
        load()


# commands shown to people, a sweep to try things with, what an algorithm costs
EXAMPLES = {"bench/prepare/help.py", "bench/commands/partition.py", "sweeps/__main__.py", "sweeps/overhead.py"}
PACKAGES = ("bench", "datamodules", "leaderboards", "sweeps")
METHODS = {"sweeps/estimate.py"}


def test_only_a_papers_own_modules_name_it():
    """In code, that is: a docstring or a comment may cite where something comes from."""
    name = re.compile(rf"(?<![a-z0-9.])({'|'.join(FOUR)})(?![a-z0-9]|_cnn)", re.I)
    found = set()
    for path in (p for folder in PACKAGES for p in ROOT.glob(f"{folder}/**/*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        words = [str(node.value) for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings]
        words += [node.id for node in nodes if isinstance(node, ast.Name)]
        if any(map(name.search, words)):
            found.add(path.relative_to(ROOT).as_posix())
    own = {f"{folder}/{paper}.py" for folder in ("leaderboards/papers", "sweeps") for paper in FOUR}
    history = {"bench/output/versions.py"}  # what older records lack of a method
    assert own <= found <= own | EXAMPLES | METHODS | history


def test_a_method_is_called_what_its_class_is_and_a_variant_what_its_paper_calls_it():
    for name, cls in classes("algo").items():
        assert named(name) == cls.__name__.replace("_", "-")
    words = ("ce_afl", "cifar10", "gtsrb", "emnist_letters", "image100", "plu(300,10,8)", "tvw-inv", "-", "best method")
    assert (
        " ".join(map(named, words))
        == "CE-AFL CIFAR-10 GTSRB EMNIST-L IMAGE-100 PLU(300,10,8) TVW-inv all methods best method"
    )
