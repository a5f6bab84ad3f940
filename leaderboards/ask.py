"""Questions that need torch, put to a process of their own: leaderboards/ knows none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parents[1])


def ask(code: str, question: Any) -> Any:
    """What `code` prints last, as JSON; it finds `question`, as JSON, on its standard input."""
    # -P: nothing in the working directory is taken for a module. ROOT first: this checkout, not the one installed.
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, input=json.dumps(question), env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a process that was asked for models or plans failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
