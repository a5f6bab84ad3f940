"""The log of jobs that a timeline is drawn from."""

from itertools import pairwise
from pathlib import Path

from bench.__main__ import main
from bench.commands import timeline
from bench.commands.timeline import SHOWN, _aggregations, chosen, until
from bench.main import command
from bench.output.timeline import Log
from bench.record import read_all


def test_a_runs_jobs_are_logged_and_drawn(capsys):
    keys = ["algo=fedasync", "clients=6", "cohort=3", "rounds=2", "devices.up=0.1", "devices.loss=0.3"]
    assert command([*keys, "logger=none"]) == 0
    (run,) = read_all(Path("runs"))
    jobs = Log(run.folder).read()
    arrived = [job for job in jobs if job["outcome"] == "arrived"]
    assert len(arrived) == 12
    assert len(jobs) > len(arrived)  # some were lost
    for job in jobs:
        times = [float(job[name]) for name in ("dispatched", "begins", "finish", "arrival")]
        assert times == sorted(times)
    ends = _aggregations(jobs)
    assert ends == sorted(ends)
    assert ends[-1] <= run.result.virtual_seconds
    assert main(["timeline", str(run.folder)]) == 0
    assert (run.folder / "timeline.png").stat().st_size > 5_000
    assert "6 devices" in capsys.readouterr().out


def test_a_resumed_log_forgets_what_came_after_the_checkpoint(tmp_path):
    log = Log(tmp_path)
    job = (0, 1, 0.0, 0.5, 1.0, 1.5, "arrived")
    for round in (1, 2, 3):
        log.append(round, [job, job])
    log.truncate(2)
    assert [row["round"] for row in log.read()] == ["1", "1", "2", "2"]
    log.append(3, [job])
    assert len(log.read()) == 5


def test_a_folder_without_a_timeline_is_refused(capsys):
    assert main(["timeline", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("error:")


def row(round, client, dispatched, arrival):
    return {"round": str(round), "client": str(client), "dispatched": str(dispatched), "arrival": str(arrival)}


def test_what_is_still_under_way_when_the_drawn_rounds_end_is_drawn_too():
    jobs = [row(1, 0, 0.0, 2.0), row(2, 0, 2.0, 4.0), row(3, 1, 0.0, 9.0), row(3, 0, 4.0, 8.0)]
    assert until(jobs, 2) == jobs[:3]
    assert until([], 2) == []


def test_a_lane_shows_download_training_and_upload_and_lines_mark_the_aggregations(monkeypatch):
    kept = []
    monkeypatch.setattr(timeline, "save", lambda figure, target: kept.append((figure, target)))
    times = {7: (0, 0.5, 2, 3), 9: (3, 3.25, 5, 5.5)}
    jobs = [
        {"client": str(client), "version": str(version), "outcome": outcome}
        | dict(zip(("dispatched", "begins", "finish", "arrival"), map(str, times[client]), strict=True))
        for client, version, outcome in ((7, 0, "arrived"), (9, 1, "lost"))
    ]
    timeline._draw(jobs, [7, 9], "two jobs", Path("x.png"))
    ((figure, target),) = kept
    (axes,) = figure.axes
    bars = {
        (round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width(), colour)
        for colour, group in zip(timeline.COLOURS.values(), axes.containers, strict=False)
        for bar in group
    }
    grey, blue, orange, red = timeline.COLOURS.values()
    assert bars == {
        *((0, 0, 0.5, grey), (0, 0.5, 1.5, blue), (0, 2, 1, orange)),
        *((1, 3, 0.25, grey), (1, 3.25, 1.75, blue), (1, 5, 0.5, red)),
    }
    (aggregations,) = [lines for lines in axes.collections if lines.get_segments()]
    assert [segment[0][0] for segment in aggregations.get_segments()] == [3.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["7", "9"] and target == Path("x.png")


def test_of_many_devices_those_that_come_back_are_drawn():
    jobs = [row(1, client, 0.0, 1.0) for client in range(5000)] + [row(2, client, 1.0, 2.0) for client in (7, 4321)]
    shown = chosen(jobs, range(5000))
    assert len(shown) == SHOWN and shown == sorted(shown) and {7, 4321} <= set(shown)
    assert max(b - a for a, b in pairwise(shown)) < 300  # the others from everywhere
    assert chosen(jobs, [3, 5]) == [3, 5]
