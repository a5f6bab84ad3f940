import json
import math
import signal
import subprocess
import sys

import numpy as np
import pytest
import yaml
from made_result import made_result

from bench.errors import UserError
from bench.record import AFTER, BEFORE, COLUMNS, Record, read, read_all


def config(tmp_path, **changes):
    names = {key: {"name": name} for key, name in [("algo", "fedavg"), ("dataset", "digits")]}
    return {**names, "seed": 3, "lr": 0.1, "out": str(tmp_path / "runs"), **changes}


def row(number, **changes):
    values = {name: float(number) for name in COLUMNS}
    return {**values, "round": number, "train_seconds": 0.5, **changes}


def test_folder_names_are_readable_and_unique(tmp_path):
    folders = [Record.create(config(tmp_path)).folder for _ in range(20)]
    assert len({folder.name for folder in folders}) == 20
    assert all(folder.parent == tmp_path / "runs" and "-fedavg-digits-s3-" in folder.name for folder in folders)


def test_config_holds_what_was_resolved_and_where_it_came_from(tmp_path):
    record = Record.create(config(tmp_path, group="g1"))
    written = yaml.safe_load((record.folder / "config.yaml").read_text())
    assert written["lr"] == 0.1
    assert written["algo"] == {"name": "fedavg"}
    assert written["group"] == "g1"
    assert {"command", "created"} <= written.keys()


def test_rows_come_back_as_written_and_are_flushed(tmp_path):
    record = Record.create(config(tmp_path))
    record.append(row(1, test_accuracy=None, train_loss=0.1 + 0.2, kappa=1e-17))
    record.append(row(2, train_loss=math.nan, kappa=None))
    first, second = read(record.folder).rows
    assert math.isnan(first["test_accuracy"])
    assert first["train_loss"] == 0.1 + 0.2
    assert first["kappa"] == 1e-17
    assert first["round"] == 1 and isinstance(first["round"], int)
    assert math.isnan(second["train_loss"]) and math.isnan(second["kappa"])
    lines = (record.folder / "metrics.csv").read_text().splitlines()
    assert lines[0].split(",")[: len(COLUMNS) + 1] == [*BEFORE, "test_accuracy", *AFTER]
    assert lines[1].split(",")[len(BEFORE)] == ""
    assert lines[2].split(",")[COLUMNS.index("train_loss")] == "nan"


def test_numpy_numbers_are_written_as_numbers(tmp_path):
    record = Record.create(config(tmp_path))
    record.append(row(1, train_loss=np.float64(0.25)))
    assert read(record.folder).rows[0]["train_loss"] == 0.25


def test_the_first_row_fixes_the_columns(tmp_path):
    record = Record.create(config(tmp_path))
    record.append(row(1))
    with pytest.raises(ValueError, match="no column kappa"):
        record.append(row(2, kappa=1.0))


def test_status_follows_the_life_of_a_run(tmp_path):
    record = Record.create(config(tmp_path))
    assert read(record.folder).status == "running"
    record.append(row(1))
    record.close()
    assert read(record.folder).status == "interrupted"
    assert read(record.folder).result is None
    again = Record.reopen(record.folder)
    assert read(record.folder).status == "running"
    again.finish(made_result(final_loss=math.nan, data={"train": 3}))
    again.close()
    run = read(record.folder)
    assert run.status == "finished"
    assert run.result == made_result(data={"train": 3})
    assert json.loads((record.folder / "result.json").read_text()) == run.result.to_dict()
    assert not list(record.folder.glob("*.tmp"))


def test_a_killed_writer_leaves_a_readable_record(tmp_path):
    code = f"""
import os, signal
from bench.record import Record
record = Record.create({config(tmp_path)!r})
record.append({{"round": 1, "test_accuracy": 0.5}})
record.append({{"round": 2, "test_accuracy": 0.6}})
record._csv.write("3,0.1,0."); record._csv.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    (run,) = read_all(tmp_path / "runs")
    assert run.status == "interrupted"
    assert [r["test_accuracy"] for r in run.rows] == [0.5, 0.6]


def test_truncate_goes_back_to_a_round_and_on_from_there(tmp_path):
    record = Record.create(config(tmp_path))
    for number in range(1, 6):
        record.append(row(number, test_accuracy=None if number == 2 else number / 10))
    before = (record.folder / "metrics.csv").read_text().splitlines()
    record.close()
    with (record.folder / "metrics.csv").open("a") as file:
        file.write("6,half a li")
    record = Record.reopen(record.folder)
    assert len(record.rows) == 5
    record.truncate(3)
    assert (record.folder / "metrics.csv").read_text().splitlines() == before[:4]
    record.append(row(4, test_accuracy=0.4))
    record.append(row(5, test_accuracy=0.5))
    assert (record.folder / "metrics.csv").read_text().splitlines() == before
    assert [r["round"] for r in record.rows] == [1, 2, 3, 4, 5]


def test_truncate_to_nothing_starts_a_new_file(tmp_path):
    record = Record.create(config(tmp_path))
    record.append(row(1, kappa=1.0))
    record.truncate(0)
    assert read(record.folder).rows == []
    record.append(row(1, other=2.0))
    assert read(record.folder).rows[0]["other"] == 2.0


def test_a_checkpoint_ahead_of_the_rows_is_refused(tmp_path):
    record = Record.create(config(tmp_path))
    record.append(row(1))
    with pytest.raises(UserError, match="has 1 rounds, its checkpoint 4"):
        record.truncate(4)


def test_finished_and_running_runs_cannot_be_reopened(tmp_path):
    record = Record.create(config(tmp_path))
    with pytest.raises(UserError, match="has not ended"):
        Record.reopen(record.folder)
    record.finish(made_result())
    record.close()
    with pytest.raises(UserError, match="finished already"):
        Record.reopen(record.folder)


@pytest.mark.parametrize("content", [None, "[1, 2]", "a: [", "hello: 1\n"])
def test_other_folders_are_not_runs(tmp_path, content):
    if content is not None:
        (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(UserError, match="is not the folder of a run"):
        read(tmp_path)


def test_read_all_is_in_the_order_of_creation_and_picks_a_group(tmp_path):
    assert read_all(tmp_path / "runs") == []
    made = [Record.create(config(tmp_path, group=group)).folder for group in (None, "a", "a", *"bcdef")]
    assert [run.folder for run in read_all(tmp_path / "runs")] == made
    assert [run.folder for run in read_all(tmp_path / "runs", group="a")] == made[1:3]


def test_an_output_folder_that_cannot_be_made_is_a_users_error(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(UserError, match="Cannot write to the output folder"):
        Record.create(config(tmp_path))


def test_the_record_does_not_import_torch():
    code = "import sys, bench.record, bench.metrics; sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_only_what_a_checkpoint_holds_is_said_to_be_kept(tmp_path):
    record = Record.create(config(tmp_path))
    for number in range(1, 4):
        record.append(row(number))
    assert "there is no checkpoint yet" in record.how_to_go_on() and "starts over" in record.how_to_go_on()
    record.checkpointed = 2
    assert "; 2 rounds are kept, " in record.how_to_go_on() and "goes on" in record.how_to_go_on()
