from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from datamodules.base import DataError, Split
from datamodules.download import Torchvision
from datamodules.idx import IMAGES, LABELS, read_split
from datamodules.images import _Images
from datamodules.sources import Files, Forms, Place

FACTS = {  # size, classes, and mean and deviation of the derived training sets below
    "letters": ((124_800, 20_800), 26, (0.1746,), (0.3321,)),
    "byclass": ((697_932, 116_323), 62, (0.1736,), (0.3317,)),
}
DERIVED = {"letters": "letters26-derived", "byclass": "byclass62-derived"}


def _files(split: str, prefix: str, **more: Any) -> Files:
    names = tuple(kind.format(f"{prefix}-{part}") for part in ("train", "test") for kind in (IMAGES, LABELS))
    contents = f"{names[0]}[.gz] and {len(names) - 1} more"
    return Files(
        title=f"EMNIST {split}", name="emnist", names=names, contents=contents, recognise=lambda folder: True, **more
    )


@dataclass(frozen=True, kw_only=True)
class EMNIST(_Images):
    """EMNIST (Cohen, Afshar, Tapson, van Schaik 2017), turned upright.

    `letters`: A to Z, cases merged, classes 0-25. `byclass`: 0-9, A-Z, a-z. Where the official files are not found,
    sets derived from them are taken (`letters26-derived-*`, `byclass62-derived-*`), and the record says so.
    """

    title = "handwritten letters (split letters) or digits and letters (split byclass), 28x28"
    shape = (1, 28, 28)
    size, classes, mean, std = FACTS["letters"]
    defaults: ClassVar = {
        "rounds": 50,
        "clients": 100,
        "cohort": 20,
        "epochs": 3,
        "batch_size": 64,
        "lr": 0.1,
        "target": 0.9,
        "normalise": False,
        "partition": {"name": "dirichlet", "alpha": 0.6},
        "model": {"name": "lenet5"},
    }

    split: str = "letters"

    def __post_init__(self) -> None:
        if self.split not in FACTS:
            raise DataError(f"dataset.split of emnist must be {' or '.join(FACTS)}, not {self.split!r}.")
        for name, value in zip(("size", "classes", "mean", "std"), FACTS[self.split], strict=True):
            object.__setattr__(self, name, value)  # class variables everywhere else
        super().__post_init__()

    @classmethod
    def variants(cls) -> list[EMNIST]:
        return [cls(split=split) for split in FACTS]

    def summary(self) -> str:
        return f"split {self.split}: {super().summary()}"

    def forms(self) -> Forms:
        whole = Torchvision("EMNIST", "EMNIST/raw", options=({"split": self.split},))
        derived = f"derived: {DERIVED[self.split]}"
        return (
            _files(self.split, f"emnist-{self.split}", torchvision=whole),
            _files(self.split, DERIVED[self.split], deviation=derived),
        )

    def part(self, place: Place, name: str) -> Split:
        prefix = place.files.names[0].removesuffix(IMAGES.format("-train"))
        first_label = 1 if self.split == "letters" else 0
        split = read_split(place, f"{prefix}-{name}", self.classes, first_label)
        # the files hold every image mirrored at its diagonal
        return Split(split.x.transpose(1, 2).contiguous(), split.y)
