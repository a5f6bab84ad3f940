"""A campaign: what comes first, at which scale, what it says, and that it goes on wherever it was stopped."""

import math
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from made_result import made_result

from datamodules.cifar import CIFAR10
from sweeps import __main__ as command
from sweeps import campaign as campaigns
from sweeps.blocks import LIMIT, Block, Campaign, ClaimNeeds, Done, NeededRun, Prices, campaign, next_job, steps
from sweeps.campaign import CampaignDrive
from sweeps.worker import Options, TrialWorker

ROOT = str(Path(__file__).resolve().parents[2])


def needed(method, seeds=(0,), dataset="toy", **there):
    words = (f"algo={method}", f"dataset={dataset}", "protocol=made", "scale=paper")
    return NeededRun(method, dataset, "s", words, tuple(seeds), there)


def prices(seconds=lambda run: 60.0, scaled=False, missing=lambda run: "", speed=1.0):
    return Prices(seconds, lambda run: scaled, missing, speed)


def job(method, seed=0, scale="paper", dataset="toy"):
    return (f"algo={method}", f"dataset={dataset}", "protocol=made", f"scale={scale}", f"seed={seed}")


def block(name, seconds, **claims):
    """Claims by the runs that each needs, named by letters; a letter is a run of so many seconds."""
    jobs = list(dict.fromkeys(letter for letters in claims.values() for letter in letters))
    numbers = {claim: tuple(map(jobs.index, letters)) for claim, letters in claims.items()}
    return Block(name, "paper", tuple(map(job, jobs)), tuple(float(seconds[letter]) for letter in jobs), numbers)


def order(blocks, done=None):
    return [(step.block.name, step.settles, step.seconds) for step in steps(blocks, done or Done())]


def test_the_block_with_most_claims_an_hour_comes_first():
    seconds = {"a": 3600, "b": 3600, "c": 1800, "d": 7200}
    blocks = [
        block("few", seconds, x="d"),
        block("many", seconds, p="a", q="ab", r="b"),
        block("short", seconds, y="c"),
    ]
    assert order(blocks) == [("short", 1, 1800), ("many", 3, 7200), ("few", 1, 7200)]
    assert [step.rate for step in steps(blocks, Done())] == [2, 1.5, 0.5]


def test_a_run_that_several_blocks_need_is_paid_once_and_settles_what_it_can_everywhere():
    seconds = {"a": 100, "b": 100, "c": 300}
    blocks = [block("first", seconds, x="a", y="b"), block("second", seconds, z="a", w="ac")]
    assert order(blocks) == [("first", 3, 200), ("second", 1, 300)]


def test_within_a_block_the_claim_that_lacks_least_comes_first():
    found = next(steps([block("one", {"a": 10, "b": 50, "c": 20}, x="ab", y="ac", z="abc")], Done()))
    assert found.jobs == [job("a"), job("c"), job("b")]


def test_what_a_block_took_takes_the_place_of_its_estimate():
    seconds = dict.fromkeys("abcd", 100)
    blocks = [block("one", seconds, x="a", y="b"), block("two", seconds, z="c", w="d")]
    assert order(blocks)[0][0] == "one"
    assert order(blocks, Done({job("a"): 200.0})) == [("one", 1, 200), ("two", 2, 400)]  # so may the others' be
    other = Done({job("a"): 900.0, job("c"): 100.0})
    assert order(blocks, other) == [("two", 1, 100), ("one", 1, 900)]
    assert ("three", 1, 500) in order([*blocks, block("three", {"e": 100}, v="e")], other)


def test_a_block_that_was_begun_is_left_only_for_twice_as_many_claims_an_hour():
    one = block("one", dict.fromkeys("abc", 100), x="abc")
    for seconds, begun in ((50, "two"), (80, "one")):
        two = block("two", dict.fromkeys("de", seconds), y="de")
        assert order([one, two])[0][0] == "two"
        assert order([one, two], Done(busy=[job("a")]))[0][0] == begun


def test_a_claim_whose_run_failed_is_out_and_the_others_go_on():
    blocks = [block("one", dict.fromkeys("abc", 100), x="ab", y="ac")]
    assert order(blocks, Done(failed=[job("b")])) == [("one", 1, 200)]
    assert order(blocks, Done(failed=[job("a")])) == []


def test_nothing_is_begun_that_would_end_too_late_and_nothing_twice():
    blocks = [block("long", {"a": 100}, x="a", y="a", z="a"), block("short", {"b": 50}, w="b")]
    assert next_job(blocks, Done())[1] == job("a")
    assert next_job(blocks, Done(), 60)[1] == job("b")
    assert next_job(blocks, Done(), 40) is None
    assert next_job(blocks, Done(busy=[job("a")]))[1] == job("b")


@pytest.mark.parametrize(
    ("seconds", "scaled", "scale"),
    [(LIMIT, True, "paper"), (LIMIT + 1, True, "cpu"), (LIMIT + 1, False, "paper"), (math.nan, True, "cpu")],
)
def test_over_the_limit_it_is_scale_cpu_where_there_is_one(seconds, scaled, scale):
    cost = {"scale=paper": seconds, "scale=cpu": 60.0}
    claims = [ClaimNeeds("c", "column", (needed("short"), needed("long", (0, 1), paper=(0,), cpu=(1,))))]

    def price(run):
        return cost[run.overrides[-1]] if run.method == "long" else 60.0

    (found,) = campaign(claims, prices(price, scaled)).blocks
    assert found.scale == scale  # of all methods alike, and a run at the paper's scale is more than one at scale=cpu
    assert found.lacking == {job("short", 0, scale), *([job("long", 1)] if scale == "paper" else [])}


def test_what_cannot_be_run_is_named_and_the_rest_goes_on():
    claims = [
        ClaimNeeds("a", "here", (needed("fedavg", (0, 1), paper=(0,)),)),
        ClaimNeeds("b", "here", (needed("fedprox", paper=(0,)),)),
        ClaimNeeds("c", "elsewhere", (needed("fedavg", dataset="far"),)),
        ClaimNeeds("d", "here", (needed("fedavg"),), "needs an idle machine"),
    ]
    found = campaign(claims, prices(missing=lambda run: "Fetch far." if run.dataset == "far" else ""))
    assert [b.lacks for b in found.blocks] == [{"a": {job("fedavg", 1)}}]
    assert found.refused == {"needs an idle machine": {"here": ["d"]}, "Fetch far.": {"elsewhere": ["c"]}}
    assert (found.measured, found.claims) == (1, 2)
    text = campaigns.table(found, Done())
    assert (
        "1 claims: Fetch far.\n    elsewhere (1)\n" in text
        and "1 claims: needs an idle machine\n    here (1)\n" in text
    )


def test_a_data_set_that_is_not_here_is_named_and_not_fetched(monkeypatch):
    monkeypatch.setattr(CIFAR10, "available", lambda self: None)
    monkeypatch.setattr(CIFAR10, "load", lambda self: pytest.fail("loaded"))
    campaigns._missing.cache_clear()
    words = ("algo=fedavg", "dataset=cifar10", "protocol=fedlc", "scale=paper")
    missing = campaigns.prices().missing
    assert missing(NeededRun("m", "d", "s", words, (), {}).at("cpu")).startswith("cifar10 is not here: ")
    assert not missing(NeededRun("m", "d", "s", ("algo=fedavg", "dataset=digits", "protocol=none"), (), {}).at("paper"))
    campaigns._missing.cache_clear()


def test_the_table_adds_up():
    found = Campaign((block("one", {"a": 3600}, x="a"), block("two", {"b": 900, "c": 900}, y="b", z="bc")), 5, {})
    rows = [" ".join(line.split()) for line in campaigns.table(found, Done()).splitlines()]
    assert rows[1:3] == ["two paper 2 2 0.5 4 0.5 7", "one paper 1 1 1 1 1.5 8"]
    assert rows[0].startswith("block scale runs claims") and rows[4] == "5 of 8 claims have all their runs."
    later = campaigns.table(found, Done({job("b"): 1800.0})).splitlines()
    assert " ".join(later[1].split()) == "two paper 1 1 0.5 2 0.5 7"


SLOW, QUICK = block("slow", dict.fromkeys("ab", 500), x="ab"), block("quick", dict.fromkeys("cd", 20), y="c", z="d")
MADE = Campaign((SLOW, QUICK), 3, {})


def options(until=math.inf, found=MADE):
    return Options(
        "campaign", (), "sqlite:///sweeps.db", "runs", 4, blocks=tuple(map(asdict, found.blocks)), until=until
    )


def work(execute, **more):
    return TrialWorker(Options.loaded(options(**more).dumped()), execute).work()


def test_it_goes_on_after_a_stop_and_runs_nothing_twice():
    begun = []

    def execute(task):
        begun.append(task.claimed.words)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return made_result(wall_seconds=7.0)

    assert work(execute) == 130
    queue = options().queue()
    assert queue.done().measured(MADE) == 4 and queue.state().finished == 1
    assert work(execute) == 0 and options().queue().done().measured(MADE) == 6
    assert begun == [job("c"), job("d"), job("d"), job("a"), job("b")]


def test_it_goes_on_with_what_is_lacking_now():
    """The ledger has got some of the runs meanwhile, and lacks others: the study is the same."""
    assert work(lambda task: made_result()) == 0
    later = Campaign((block("other", dict.fromkeys("be", 9), x="be"),), 6, {})
    begun = []
    work(lambda task: begun.append(task.claimed.words) or made_result(), found=later)
    assert begun == [job("e")]


def test_what_a_run_took_is_known_after_it_was_added():
    work(lambda task: made_result(wall_seconds=60.0), until=time.time() + 300)
    queue = options(found=Campaign((replace(QUICK, claims={"z": (1,)}),), 4, {})).queue()
    queue.set_aside([trial.number for trial in queue.finished()])
    assert queue.sweep.jobs == (job("d"),) and queue.done().took == {job("c"): 60.0}
    assert order(queue.blocks, queue.done()) == [("quick", 1, 60)]


def test_a_failure_does_not_end_it():
    def execute(task):
        if "algo=c" in task.claimed.words:
            raise RuntimeError("no")
        return made_result()

    assert work(execute) == 0
    done = options().queue().done()
    assert done.failed == [job("c")] and done.measured(MADE) == 5


def test_hours_keep_it_from_beginning_what_would_end_later():
    begun = []
    for until in (300, -1):
        assert work(lambda task: begun.append(task.claimed.words) or made_result(), until=time.time() + until) == 0
        assert begun == [job("c"), job("d")]


def test_it_says_what_is_measured_what_comes_next_and_when_it_ends(capsys):
    def drive(until=math.inf):
        made = options(until)
        return CampaignDrive(made, 2, made.queue(), campaign=MADE)

    first = drive()
    first._say(first.queue.state())
    assert capsys.readouterr().out.splitlines() == [
        "3 of 6 claims measured; 0/4 finished, 0 running, 0 failed",
        "    all in about 9 min; next algo=c seed=0 of quick (20 s, its block 40 s)",
    ]
    work(lambda task: made_result(wall_seconds=40.0), until=time.time() + 60)
    late = drive(time.time() + 300)
    late._say(late.queue.state())
    said, ahead = capsys.readouterr().out.splitlines()[-2:]
    assert said.startswith("5 of 6 claims measured") and ahead.endswith("stops in 5 min; nothing more is begun")
    assert late._end() == 0
    assert "No other run would end within --hours. To go on: python -m sweeps campaign" in capsys.readouterr().out


def called(capsys, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["sweeps", "campaign", *words])
    code = command.main()
    return code, capsys.readouterr()


def test_uncommitted_code_is_refused_before_anything_is_asked(capsys, monkeypatch):
    monkeypatch.setattr(campaigns, "git_revision", lambda: "0" * 40 + "-dirty")
    monkeypatch.setattr(campaigns, "lacking", lambda: pytest.fail("asked"))
    code, text = called(capsys, monkeypatch, "--add")
    assert code == 2 and text.err.count("\n") == 1 and "not committed" in text.err


@pytest.mark.parametrize(("words", "expected"), [(["dataset=mnist"], "no keys"), (["--hours", "0"], "--hours 0")])
def test_mistakes_get_a_sentence(capsys, monkeypatch, words, expected):
    code, text = called(capsys, monkeypatch, *words)
    assert code == 2 and expected in text.err


def test_a_dry_run_writes_nothing(capsys, monkeypatch):
    monkeypatch.setattr(campaigns, "lacking", lambda: MADE)
    code, text = called(capsys, monkeypatch, "--dry-run")
    assert code == 0 and text.out.splitlines()[1].startswith("quick") and not list(Path.cwd().iterdir())


def test_runs_that_the_ledger_does_not_take_run_again(monkeypatch, capsys):
    """With --add: what an earlier start finished is added first."""
    work(lambda task: made_result(), until=time.time() + 300)
    given = []
    monkeypatch.setattr(campaigns, "keep", lambda queue, jobs: given.extend(jobs))
    taken = Campaign((SLOW, block("quick", {"d": 20}, z="d")), 4, {})
    monkeypatch.setattr(campaigns, "lacking", lambda: taken)
    assert campaigns._with_earlier(options(), MADE) is taken
    assert given == [job("a"), job("b"), job("c"), job("d")]
    assert options().queue().done().took.keys() == {job("c")}
    assert "1 finished runs that the ledger did not take run again" in capsys.readouterr().out


@pytest.mark.slow
def test_real_runs_go_on_after_a_worker_was_killed(capsys, monkeypatch):
    words = ("dataset=digits", "logger=none", "rounds=3")
    jobs = tuple((f"algo={algo}", *words, "seed=0") for algo in ("fedavg", "fedprox", "scaffold"))
    found = Campaign((Block("digits", "paper", jobs, (9.0,) * 3, {"x": (0, 1), "y": (0, 1, 2)}),), 0, {})
    made = Options("campaign", (), "sqlite:///kept/sweeps.db", "kept", 4, blocks=tuple(map(asdict, found.blocks)))
    worker = [sys.executable, "-m", "sweeps.worker"]
    Path("kept").mkdir()
    monkeypatch.setenv("PYTHONPATH", ROOT)
    with subprocess.Popen(worker, stdin=subprocess.PIPE) as first:
        first.stdin.write(made.dumped().encode())
        first.stdin.close()
        while not list(Path("kept").glob("*/result.json")):
            assert first.poll() is None
            time.sleep(0.02)
        first.kill()
    monkeypatch.setattr(campaigns, "lacking", lambda: found)
    code, text = called(capsys, monkeypatch, "--out", "kept", "--grace", "4")
    assert code == 0 and "2 of 2 claims measured; 3/3 finished" in text.out, text.err
    assert text.out.splitlines()[-1] == "To keep what is finished: python -m leaderboards add kept"
    assert len(list(Path("kept").glob("*/result.json"))) == 3
    code, text = called(capsys, monkeypatch, "--out", "kept")
    assert code == 0 and text.out.splitlines()[1] == "campaign: 3 runs, 3 finished before"
