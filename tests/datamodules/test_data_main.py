from datamodules.__main__ import main
from tests.running import printed


def test_the_list_says_where_each_data_set_is(tmp_path, monkeypatch, capsys, write_idx):
    write_idx(tmp_path / "mnist")
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "sklearn (bundled)" in shown and "1,437 + 360 samples, 10 classes" in shown
    assert f"FEDBENCH_DATA: {tmp_path / 'mnist'}" in shown


def test_list_shows_what_is_derived_and_how_to_get_the_rest(tmp_path, monkeypatch, capsys):
    (tmp_path / "emnist").mkdir()
    for part in ("train", "test"):
        for kind in ("images-idx3", "labels-idx1"):
            (tmp_path / "emnist" / f"byclass62-derived-{part}-{kind}-ubyte.gz").write_bytes(b"")
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    assert main(["list", "emnist", "image100"]) == 0
    shown = capsys.readouterr().out
    assert "split letters: 124,800 + 20,800 samples, 26 classes, grouped by writer (in the MATLAB files only)" in shown
    assert "; not here: run python -m datamodules fetch" in shown
    assert f"FEDBENCH_DATA: {tmp_path / 'emnist'} (derived: byclass62-derived)" in shown
    assert "point FEDBENCH_DATA at a folder with image100/train/<class>/<image>" in shown and "cifar" not in shown


def test_unknown_verbs_and_data_sets_get_the_nearest(capsys):
    for words in ([], ["--help"], ["list", "--help"]):
        assert main(words) == 0 and "where it comes from here" in capsys.readouterr().out
    assert main(["fetsch"]) == 2 and "try list or fetch" in capsys.readouterr().err
    assert main(["fetch", "cifar12"]) == 2 and "no data set `cifar12`: try cifar10" in capsys.readouterr().err
    assert main(["fetch"]) == 2 and "Name the data sets to fetch" in capsys.readouterr().err


def test_fetch_says_where_it_is_or_why_it_cannot_be_had(capsys):
    assert main(["fetch", "image100", "digits"]) == 2
    shown = capsys.readouterr()
    there = "digits: sklearn (bundled); next: python bench.py dataset=digits\n"
    assert shown.out == there, "the others are fetched all the same"
    assert "IMAGE-100 cannot be downloaded: point FEDBENCH_DATA" in shown.err and "dataset=digits" in shown.err


def test_neither_lightning_nor_torchvision_is_imported():
    code = (
        "import sys; from datamodules.__main__ import main; main(['list']);"
        "sys.exit(' '.join({'pytorch_lightning', 'torchvision', 'sklearn'} & set(sys.modules)) or 0)"
    )
    assert printed("-c", code)
