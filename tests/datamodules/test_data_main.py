import subprocess
import sys

from datamodules.__main__ import main


def test_list(tmp_path, monkeypatch, capsys, write_idx):
    write_idx(tmp_path / "mnist")
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "sklearn (bundled)" in shown and "1,437 + 360 samples, 10 classes" in shown
    assert f"FEDBENCH_DATA: {tmp_path / 'mnist'}" in shown


def test_verbs(capsys):
    assert main([]) == 0 and "list" in capsys.readouterr().out
    assert main(["fetsch"]) == 2 and "try list" in capsys.readouterr().err


def test_neither_lightning_nor_torchvision_is_imported():
    code = (
        "import sys; from datamodules.__main__ import main; main(['list']);"
        "sys.exit(' '.join({'pytorch_lightning', 'torchvision', 'sklearn'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
