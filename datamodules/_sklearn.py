"""The files that scikit-learn brings along; its own reader would import it and SciPy, for two seconds."""

from __future__ import annotations

import gzip
import zlib
from importlib.util import find_spec
from pathlib import Path

from datamodules.base import DataError
from datamodules.sources import verify

SOURCE = "sklearn (bundled)"


def lines(name: str, sha256: str) -> list[str]:
    """Of a table as scikit-learn ships it; `sha256` is that of its uncompressed contents."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise DataError(f"{name} is part of scikit-learn, which is not installed: pip install scikit-learn.")
    path = Path(package.submodule_search_locations[0], "datasets", "data", name)
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}): pip install --force-reinstall scikit-learn.") from None
    verify(path, content, sha256)
    return content.decode().splitlines()
