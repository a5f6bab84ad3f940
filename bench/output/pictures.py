"""Pictures as files, without a screen."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from bench.errors import UserError

KINDS = (".png", ".svg", ".pdf")


def pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def picture(text: str) -> Path:
    """The type of an option that names a picture's file."""
    path = Path(text)
    if path.suffix not in KINDS:
        raise ArgumentTypeError(f"{text!r} is not the name of a picture, which ends in {' or '.join(KINDS)}")
    return path


def save(figure: Any, target: Path) -> None:
    try:
        figure.savefig(target, dpi=120)
    except OSError as error:
        raise UserError(f"Cannot write the plot to {target}: {error.strerror}; give another file with --png.") from None
    finally:
        pyplot().close(figure)
