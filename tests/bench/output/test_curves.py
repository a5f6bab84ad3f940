"""The learning curves: what is drawn, and that it becomes a picture."""

import math

import numpy as np
import pytest
from finished_runs import make
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bench.metrics import MB
from bench.output.curves import drawn, learning_curves


def curve(panel, start):
    """The points of the line whose label begins like this."""
    (line,) = [line for line in panel.lines if str(line.get_label()).startswith(start)]
    return [pytest.approx(point) for point in line.get_xydata().tolist()]


def test_a_line_is_the_mean_over_seeds_and_its_band_reaches_from_the_lowest_to_the_highest():
    (panel,) = drawn([make(seed=0, accuracy=0.8), make(seed=1, accuracy=0.9)]).axes
    assert curve(panel, "fedavg (2 seeds)") == [[t, 85 * t / 4] for t in (1, 2, 3, 4)]
    (band,) = panel.collections
    lows, highs = np.array([[t, 80 * t / 4] for t in (1, 4)]), np.array([[t, 90 * t / 4] for t in (1, 4)])
    corners = band.get_paths()[0].vertices
    assert all(np.isclose(corners, point).all(1).any() for point in (*lows, *highs))
    assert panel.get_title("left") == "digits, protocol none"


def test_one_seed_has_no_band_and_the_target_is_a_level():
    figure = drawn([make()])
    (panel,) = figure.axes
    assert curve(panel, "fedavg") == [[t, 90 * t / 4] for t in (1, 2, 3, 4)]
    assert not panel.collections and not figure.texts
    assert {y for _, y in panel.lines[-1].get_xydata().tolist()} == {85.0}
    assert panel.lines[-1].get_label() == "target 85 %"


def test_the_names_of_many_methods_stand_beside_the_curves():
    figure = drawn([make(f"fed{n}") for n in range(30)])
    FigureCanvasAgg(figure).draw()
    (panel,) = figure.axes
    legend = panel.get_legend()
    assert len(legend.get_texts()) == 31
    assert legend.get_window_extent().x0 >= panel.get_window_extent().x1
    assert panel.get_window_extent().height > 0.7 * figure.bbox.height


def test_rounds_that_a_seed_lacks_or_did_not_evaluate_are_left_out():
    gaps, short = make(seed=1), make(seed=2, rounds=3, accuracy=0.9 * 3 / 4)
    gaps.rows[1]["test_accuracy"] = math.nan
    short.config["rounds"] = 4
    (panel,) = drawn([make(), gaps, short]).axes
    assert curve(panel, "fedavg") == [[t, 90 * t / 4] for t in (1, 3)]


def test_time_and_traffic_have_a_panel_where_methods_spend_them_at_different_rates():
    slow = make("fedasync", rounds=3)
    for row in slow.rows:
        row["virtual_seconds"] *= 3
        row["bytes_peer"] = MB * row["round"]
    rounds, time, traffic = drawn([make(), slow]).axes
    assert [panel.get_xlabel() for panel in (rounds, time, traffic)] == [
        *("round", "virtual time (s)", "traffic of all devices (MB)")
    ]
    assert [x for x, _ in time.lines[0].get_xydata()] == [2, 4, 6, 8]
    assert curve(time, "fedasync") == [[6 * t, 30 * t] for t in (1, 2, 3)]
    assert curve(traffic, "fedasync") == [[t + 20 * t / MB, 30 * t] for t in (1, 2, 3)]
    assert len(drawn([make(), make("fedprox", rounds=2)]).axes) == 1  # the same a round, though not in all


def test_every_data_set_and_protocol_has_a_line_of_panels():
    titles = [panel.get_title("left") for panel in drawn([make(), make(protocol="fedlga")]).axes]
    assert titles == ["digits, protocol fedlga", "digits, protocol none"]


def test_learning_curves_are_a_picture(tmp_path):
    path = tmp_path / "new" / "curves.png"
    learning_curves([make()], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_to_plot_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no finished run"):
        learning_curves([make(status="running")], tmp_path / "x.png")
