"""The licences as samples: every character once, after those before it, and none of a test passage learned from."""

import zipfile

import pytest
import torch

from datamodules.base import DataError
from datamodules.characters import FIRST, LICENCES, WINDOW, Characters


def spelled(numbers):
    return "".join(chr(FIRST + number) for number in numbers.tolist())


@pytest.fixture(scope="module")
def data():
    return Characters().load()


def test_sections_are_spelled_out_in_order_and_end_in_their_test_passages(data):
    with zipfile.ZipFile(LICENCES) as archive:
        words = [" ".join(archive.read(name).decode().split()) for name in archive.namelist()]
    sections = []
    for group in range(89):
        train, test = (split.y[split.groups == group] for split in (data.train, data.test))
        assert len(test) == (len(train) + len(test)) // 5
        sections.append(spelled(torch.cat([train, test])))
    assert " ".join(sections) == " ".join(words)
    assert sum(section.startswith("1. ") for section in sections) == 7  # of each licence
    assert (len(data.train), len(data.test)) == Characters.size


def test_a_sample_is_what_stands_before_its_character(data):
    first = data.train.take(data.train.groups == 3)
    text = " " * WINDOW + spelled(first.y)
    assert [spelled(x) for x in first.x[:40]] == [text[i : i + WINDOW] for i in range(40)]
    seen = data.inputs(first.x[:2], normalise=False)
    assert seen.shape == (2, WINDOW) and torch.equal(seen.long(), first.x[:2].long())
    follows = data.test.take(data.test.groups == 3)
    assert spelled(follows.x[0]) == spelled(first.y[-WINDOW:])


def test_other_texts_are_refused(monkeypatch, tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("GPL-9", "1. Do what you like.")
    monkeypatch.setattr("datamodules.characters.LICENCES", tmp_path / "other.zip")
    with pytest.raises(DataError, match="is not the original"):
        Characters().load()
