"""The notebooks in docs/notebooks, in a live kernel, which has threads."""

import os

import pytest

from tests.running import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_notebook_runs_from_its_first_cell_to_its_last(path, workers, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    calls = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            calls += cell.source.count("rounds=")
            cell.source = cell.source.replace("rounds=", f"**{{'engine.workers': {workers}}}, rounds=", 1)
    assert calls >= 3
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": os.fspath(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert "image/png" in shown[-1]["data"]
    assert any("accuracy %" in output.get("text", "") for output in shown)
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 11
