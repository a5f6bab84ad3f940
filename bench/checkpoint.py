"""The file that a run goes on from: there in full or not at all, sealed by a digest, refused in a sentence."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

import torch

from bench.errors import UserError, first_line
from bench.files import replaced
from bench.learning.lightning import TorchCheckpointIO

SEAL = b"\nsha256 %b\n"  # behind what torch wrote, which its reader does not mind
LENGTH = len(SEAL % (b"0" * 64))
START_OVER = "remove checkpoints/last.ckpt, and resume starts the run over"


class AtomicCheckpoint(TorchCheckpointIO):
    """A checkpoint is there in full or not at all; Lightning's own goes through the system's temporary folder."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as file:
            watched = _Watched(file)
            try:
                torch.save(checkpoint, watched)  # type: ignore[arg-type]
                file.write(SEAL % watched.digest.hexdigest().encode())
            except Exception:
                if watched.error is not None:
                    raise watched.error from None
                raise

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = True) -> dict[str, Any]:
        try:
            seal = sealed(path)
            if seal is False:
                raise ValueError("its SHA-256 is another")
            checkpoint: Any = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # bytes of anybody's may raise anything
            raise damaged(path, first_line(error)) from None
        state = checkpoint.get("federation") if isinstance(checkpoint, dict) else None
        if not isinstance(state, dict) or not state.keys() >= {"round", "loop"} or not isinstance(state["loop"], dict):
            raise damaged(path, "it is not one of fedbench")
        return dict(checkpoint)


def sealed(path: Path) -> bool | None:
    """Whether what a checkpoint holds has the SHA-256 that stands behind it; None: nothing does, as before format 3."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < LENGTH:
            return None
        file.seek(-LENGTH, os.SEEK_END)
        seal, digest = file.read(), hashlib.sha256()
        if not seal.startswith(SEAL[: SEAL.index(b"%")]):
            return None
        file.seek(0)
        left = size - LENGTH
        while left and (content := file.read(min(left, 2**20))):
            digest.update(content)
            left -= len(content)
    return seal == SEAL % digest.hexdigest().encode()


class _Watched:
    """A file that knows the digest of what it got, and whose OSError is kept: torch.save raises something else on a
    full disk."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.flush = file.flush
        self.error: OSError | None = None
        self.digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        try:
            self.digest.update(content)
            return self.file.write(content)
        except OSError as error:
            self.error = error
            raise


def damaged(path: Path, why: str) -> UserError:
    return UserError(f"{path} cannot be used ({why}): {START_OVER}.")


def checkpoint_path(folder: Path) -> Path:
    return folder / "checkpoints" / "last.ckpt"
