"""Command lines made from the schema: each ends in a run or in one sentence with exit code 2."""

import shutil

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings

import bench.federation
import bench.run  # noqa: F401  # what every child would import
from tests.e2e import fuzzed
from tests.e2e.forked import ended

SHARDS, EACH = 10, 100


def tried(number, examples, runs, folder):
    """So many lines of one seed; a failure shows the shortest that fails, as it can be typed."""

    @hypothesis.seed(number)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(fuzzed.lines())
    def every(line):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(runs, folder / "runs")
        (folder / "a_file").write_text("neither a folder nor Python\n")
        (folder / "a_file.py").write_text("not Python\n")
        found = ended(*line, folder)
        assert found.fault() is None, f"{found.fault()}: {found}"

    every()


def test_some_command_lines(runs, tmp_path):
    tried(0, 40, runs, tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, SHARDS + 1))
def test_a_thousand_command_lines(number, runs, tmp_path):
    tried(number, EACH, runs, tmp_path / "here")
