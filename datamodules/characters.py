from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from datamodules.base import Dataset, Loaded, Split
from datamodules.sources import verify

LICENCES = Path(__file__).with_name("licences.zip")
SHA256 = "af5e8cc12fbb0f46db91563e004f840742b2702e84a23d79b0d0b4e365f8edc0"  # of the texts, one after the other
SECTION = re.compile(r"(?m)^ *(?=\d+\. )")  # it begins with its number
WINDOW = 16  # characters before the one to predict
FIRST = ord(" ")  # of the characters: those of ASCII that can be printed


@dataclass(frozen=True, kw_only=True)
class Characters(Dataset):
    """The next character, from the sixteen before it, in seven licences of free software, whose 89 sections are its
    natural groups. They are here word for word, as Debian has them in /usr/share/common-licenses: Apache 2.0, CC0 1.0,
    GFDL 1.3, GPL 2 and 3, LGPL 2.1, MPL 2.0.

    White space counts as one blank. The last fifth of each section is for testing.
    """

    title = "the next character in the text of seven licences, part of fedbench"
    size = (106398, 26558)
    classes = 95
    grouped_by = "section"
    defaults: ClassVar = {
        "rounds": 30,
        "clients": 20,
        "cohort": 5,
        "epochs": 1,
        "batch_size": 32,
        "lr": 0.5,
        "target": 3.0,
        "normalise": False,
        "partition": {"name": "iid"},
        "task": {"name": "nextcharacter"},
        "model": {"name": "char_mlp", "hidden": [64]},
    }

    def available(self) -> str:
        return "fedbench (bundled)"

    def load(self) -> Loaded:
        train, test = [], []
        for number, section in enumerate(_sections()):
            text = np.frombuffer(section.encode(), dtype=np.uint8) - FIRST
            x = np.lib.stride_tricks.sliding_window_view(np.pad(text, (WINDOW, 0)), WINDOW)[:-1]
            samples = Split(
                torch.from_numpy(x.astype(np.int64)),  # codes, which measure nothing
                torch.from_numpy(text.astype(np.int64)),
                groups=torch.full((len(text),), number),
            )
            rows, cut = torch.arange(len(text)), len(text) - len(text) // 5
            train.append(samples.take(rows[:cut]))
            test.append(samples.take(rows[cut:]))
        return Loaded(
            train=_joined(train),
            test=_joined(test),
            classes=self.classes,
            shape=(WINDOW,),
            source=self.available(),
            scale=1.0,
            mean=(0.0,),
            std=(1.0,),
        )


def _sections() -> list[str]:
    with zipfile.ZipFile(LICENCES) as archive:
        texts = [archive.read(name) for name in archive.namelist()]
    verify(LICENCES, b"".join(texts), SHA256)
    return [" ".join(section.split()) for text in texts for section in SECTION.split(text.decode())]


def _joined(parts: list[Split]) -> Split:
    x, y, groups = zip(*((part.x, part.y, part.groups) for part in parts), strict=True)
    return Split(torch.cat(x), torch.cat(y), groups=torch.cat(groups))
