"""Pictures as files, without a screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.errors import UserError


def pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, target: Path) -> None:
    try:
        figure.savefig(target, dpi=120)
    except OSError as error:
        raise UserError(f"Cannot write the plot to {target}: {error.strerror}; give another file with --png.") from None
    finally:
        pyplot().close(figure)
