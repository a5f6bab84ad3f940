"""Labels that are none of a data set's classes: a sentence, where a C kernel would write outside its memory."""

from pathlib import Path

import pytest

from tests.running import ROOT

CASES = {
    "y[5] = -1": ["The training sample", "of cancer has the label -1: labels are whole numbers from 0 to 1"],
    "y[5] = 2": ["has the label 2"],
    "y[5] = 10**6": ["has the label 1000000"],
    "y = y * 0.5": ["The training labels of cancer are torch.float32 of shape [455]"],
    "y = y.bool()": ["torch.bool"],
    "y = y[:, None]": ["of shape [455, 1]"],
    "y[test] = 7": ["The test sample 0 of cancer has the label 7"],
}


@pytest.mark.parametrize("change", CASES)
def test_a_label_that_is_no_class_is_refused(change, refused):
    source = (ROOT / "docs/examples/cancer.py").read_text()
    assert "        return Loaded(" in source
    Path("cancer.py").write_text(source.replace("        return Loaded(", f"        {change}\n        return Loaded("))
    refused(["dataset=./cancer.py", "rounds=1", "logger=none"], CASES[change])
