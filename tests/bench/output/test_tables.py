import subprocess
import sys

from finished_runs import make

from bench.metrics import mean_interval
from bench.output.tables import compared, leaderboard
from bench.record import Record


def row_of(table, name):
    return next(line for line in table.splitlines() if line.startswith(name))


def test_a_row_is_a_mean_over_seeds_with_its_interval():
    accuracies = [0.80, 0.90, 0.94]
    table = leaderboard([make(seed=seed, accuracy=value, reached=seed + 1) for seed, value in enumerate(accuracies)])
    mean, half = mean_interval([100 * value for value in accuracies])
    row = row_of(table, "fedavg")
    assert f"{mean:.2f} ± {half:.2f}" in row
    assert row.split()[1] == "3"
    assert "2.0 ± 2.5" in row  # rounds 1, 2, 3
    assert row.split()[-2:] == ["3.0", "1.0"]
    assert "rounds to 85 %" in table
    assert "MB peer" not in table


def test_one_seed_has_no_interval():
    assert "±" not in leaderboard([make()])


def test_the_best_method_comes_first():
    table = leaderboard([make("fedavg", accuracy=0.8), make("scaffold", accuracy=0.9)])
    assert table.index("scaffold") < table.index("fedavg")


def test_missed_targets_are_never_with_the_number_of_seeds():
    runs = [make(seed=0), make(seed=1, reached=None), make(seed=2, reached=None), make("scaffold", reached=None)]
    table = leaderboard(runs)
    assert "never (2 of 3)" in row_of(table, "fedavg")
    assert "never " in row_of(table, "scaffold") and "(" not in row_of(table, "scaffold")
    assert "never (m of n): m of the n seeds missed the target." in table
    assert "never: the run missed the target." in leaderboard([make(reached=None)])


def test_rows_are_named_by_what_varies():
    runs = [make("fedprox", algo_fields={"mu": mu}, lr=lr) for mu in (0.1, 1.0) for lr in (0.1, 0.01)]
    runs.append(make("fedasync", algo_fields={"mu": 7.0}))
    names = [method.label for found in compared(runs) for method in found.methods]
    expected = [f"fedprox mu={mu} lr={lr}" for mu in (0.1, 1.0) for lr in (0.1, 0.01)]
    assert sorted(names) == sorted([*expected, "fedasync lr=0.1"])


def test_partitions_that_differ_are_told_apart():
    runs = [make(), make(partition={"name": "classes", "per_client": 2})]
    (g,) = compared(runs)
    assert {method.label for method in g.methods} == {"fedavg partition=dirichlet", "fedavg partition=classes"}
    assert "dirichlet" not in g.title


def test_groups_by_protocol_and_data_set_and_says_so():
    runs = [make(), make("fedlga", protocol="fedlga"), make(dataset={"name": "fmnist"})]
    table = leaderboard(runs)
    for title in ("digits, protocol none", "digits, protocol fedlga", "fmnist, protocol none"):
        assert title in table
    assert "Protocols differ (fedlga, none)" in table
    assert "Protocols differ" not in leaderboard(runs[:1])


def test_a_repeated_seed_counts_once_and_the_latest():
    runs = [make(accuracy=value, created=f"2026-11-16T10:00:0{n}") for n, value in enumerate([0.5, 0.7, 0.6])]
    table = leaderboard([runs[1], runs[2], runs[0]])
    assert "60.00" in row_of(table, "fedavg") and row_of(table, "fedavg").split()[1] == "1"
    assert "2 older run(s) left out" in table


def test_unfinished_runs_are_counted_not_shown():
    table = leaderboard([make(), make("scaffold", status="interrupted"), make("fedprox", status="running")])
    assert "Runs without a result left out: 1 interrupted, 1 running." in table
    assert "scaffold" not in table
    assert leaderboard([make(status="running")]).startswith("No finished runs.")


def test_peer_traffic_has_a_column_when_there_is_some():
    run = make(peer_bytes=5 * 2**20)
    assert "MB peer" in leaderboard([run]) and row_of(leaderboard([run]), "fedavg").split()[-1] == "5.0"


def command(*words):
    return subprocess.run([sys.executable, "-m", "leaderboards", *words], capture_output=True, text=True)


def test_the_command_lists_its_verbs():
    done = command()
    assert done.returncode == 0 and "table" in done.stdout
    assert "\nA table of the runs in a folder" in command("table", "--help").stdout
    assert "(build/leaderboard)" in command("build", "--help").stdout


def test_the_command_prints_and_plots_records(tmp_path):
    run = make()
    record = Record.create({**run.config, "out": str(tmp_path / "runs")})
    for row in run.rows:
        record.append(row)
    record.finish(run.result)
    record.close()
    done = command("table", "--runs", str(tmp_path / "runs"), "--plot", str(tmp_path / "p.png"))
    assert done.returncode == 0, done.stderr
    assert "90.00" in row_of(done.stdout, "fedavg")
    assert (tmp_path / "p.png").exists()


def test_no_runs_is_one_sentence(tmp_path):
    done = command("table", "--runs", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: There are no runs in") and done.stderr.count("\n") == 1


def test_tables_and_curves_do_not_import_torch():
    code = "import sys, bench.output.tables, bench.output.curves; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
