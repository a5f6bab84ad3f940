import re
from pathlib import Path

import numpy as np
from PIL import Image

from bench.__main__ import main
from bench.commands import partition
from bench.commands.skew import Distance


def test_it_draws_what_a_run_would_deal(tmp_path, capsys):
    assert main(["partition", "dataset=digits", "partition=classes", "partition.per_client=3", "clients=12"]) == 0
    shown = capsys.readouterr().out
    assert "digits (sklearn (bundled)), classes(per_client=3, imbalance=1.0)" in shown
    assert re.search(r"clients +12, (\d+)-\1 samples in 3-3 classes", shown)
    assert re.search(r"^labels +0\.7\d\d on average, .* by chance 0\.1", shown, re.M), "3 of 10: 0.7, and a little"
    assert re.search(r"^features +0\.0\d\d on average, .* by chance 0\.09", shown, re.M), "classes do not count"
    with Image.open(tmp_path / "partition-digits-none.png") as image:
        assert image.width > 800 and len(set(image.convert("L").getdata())) > 20


def test_feature_skew_is_seen_in_the_features(tmp_path, capsys):
    assert main(["partition", "dataset=digits", "partition=features"]) == 0
    shown = capsys.readouterr().out
    labels, features = (float(re.search(rf"^{name} +(0\.\d+)", shown, re.M)[1]) for name in ("labels", "features"))
    assert labels < 0.04 and features > 0.25


def test_the_map_has_a_column_for_each_client_and_a_row_for_each_label(monkeypatch):
    kept = []
    monkeypatch.setattr(partition, "save", lambda figure, target: kept.append(figure))
    counts, distance = np.array([[5, 0, 1], [0, 4, 2]]), Distance(np.array([0.25, 0.75]), np.array([0.1, 0.2]))
    partition._draw(counts, {"labels": distance, "features": distance}, "two clients", Path("x.png"))
    heat, *below = [axes for axes in kept[0].axes if axes.get_ylabel() != "samples"]
    (image,) = heat.images
    assert image.get_array().tolist() == [[5, 0], [0, 4], [1, 2]] and image.origin == "lower"
    for bars in below:
        assert [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars.patches] == [(0, 0.25), (1, 0.75)]
        assert {y for _, y in bars.lines[0].get_xydata().tolist()} == {0.5}  # their mean
        assert bars.lines[1].get_ydata().tolist() == [0.1, 0.2]
    assert [bars.get_ylabel() for bars in below] == ["distance\n(labels)", "distance\n(features)"]
    assert heat.get_title() == "two clients"


def test_the_file_can_be_chosen_and_a_remark_is_printed(tmp_path, capsys):
    keys = ["dataset=digits", "partition=ranges", "clients=20", "cohort=5", "partition.overlap=false"]
    sizes = ["partition.n_min=100", "partition.n_max=140", "partition.c_min=2", "partition.c_max=4"]
    assert main(["partition", *keys, *sizes, "--png", "deal.png"]) == 0
    assert "100-140 were asked for" in capsys.readouterr().out and (tmp_path / "deal.png").exists()


def test_mistakes_are_one_sentence(capsys):
    assert main(["partition", "dataset=digitz"]) == 2
    assert "nearest: digits" in capsys.readouterr().err
    assert main(["partition", "dataset=digits", "partition=dirichlet", "partition.min_size=100"]) == 2
    assert "use at most 14 clients" in capsys.readouterr().err
    assert main(["partition", "dataset=digits", "partition=features", "partition.skew=2"]) == 2
    assert "partition.skew=2.0 is not possible: it must be between 0 and 1" in capsys.readouterr().err
    assert main(["partition", "--png", "no/where.png"]) == 2
    assert "Cannot write the plot to no/where.png" in capsys.readouterr().err
