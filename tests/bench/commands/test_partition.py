import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.__main__ import main
from bench.commands import partition
from bench.commands.partition import wasserstein


def test_wasserstein_by_hand():
    """Labels 0, 1, 2 in equal shares: a client with label 0 alone moves a third by one and a third by two."""
    whole = np.array([10, 10, 10])
    counts = np.array([[5, 5, 5], [9, 0, 0], [0, 4, 0], [1, 1, 0]])
    assert wasserstein(counts, whole).tolist() == pytest.approx([0, 1, 2 / 3, 1 / 2])


def test_it_draws_what_a_run_would_deal(tmp_path, capsys):
    assert main(["partition", "dataset=digits", "partition=classes", "partition.per_client=3", "clients=12"]) == 0
    shown = capsys.readouterr().out
    assert "digits (sklearn (bundled)), classes(per_client=3, imbalance=1.0)" in shown
    assert re.search(r"clients +12, (\d+)-\1 samples in 3-3 classes", shown)
    with Image.open(tmp_path / "partition-digits-none.png") as image:
        assert image.width > 800 and len(set(image.convert("L").getdata())) > 20


def test_the_map_has_a_column_for_each_client_and_a_row_for_each_label(monkeypatch):
    kept = []
    monkeypatch.setattr(partition, "save", lambda figure, target: kept.append(figure))
    counts, distance = np.array([[5, 0, 1], [0, 4, 2]]), np.array([0.25, 0.75])
    partition._draw(counts, distance, "two clients", Path("x.png"))
    heat, bars = kept[0].axes[:2]
    (image,) = heat.images
    assert image.get_array().tolist() == [[5, 0], [0, 4], [1, 2]] and image.origin == "lower"
    assert [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars.patches] == [(0, 0.25), (1, 0.75)]
    assert {y for _, y in bars.lines[0].get_xydata().tolist()} == {0.5}  # their mean
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
    assert main(["partition", "--png", "no/where.png"]) == 2
    assert "Cannot write the plot to no/where.png" in capsys.readouterr().err
