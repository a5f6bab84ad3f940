"""Answers from a process of its own, of a package that the one who asks knows nothing of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parents[1])


def answers(module: str, words: Sequence[str], questions: Sequence[Any], failure: str) -> list[Any]:
    """What python -m module words prints last, as JSON, the questions being its standard input."""
    # -P: nothing in the working directory is taken for a module. ROOT first: this checkout, not the one installed.
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-P", "-m", module, *words]
    done = subprocess.run(command, input=json.dumps(questions), env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{failure}:\n{done.stderr[-2000:]}")
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found
