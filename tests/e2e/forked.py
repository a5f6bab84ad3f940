"""A command in a fork of this process: imports are shared, and a crash, a hang or a signal is only the child's."""

import os
import resource
import shlex
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("bench.py", "bench", "sweeps", "leaderboards", "datamodules")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir": 0, "os.rename": 1, "os.remove": 0, "os.rmdir": 0, "os.link": 1, "os.symlink": 1, "os.chmod": 0}
TOLD = b"\nforecast   about"
SYSTEMS = ("/dev/", "/proc/self/", "/tmp/pymp-", "/tmp/tmp", "/sys/fs/cgroup")


@dataclass(frozen=True)
class Ended:
    """What became of a command line."""

    line: str  # as it can be typed
    code: int  # negative: the number of the signal that ended it
    seconds: float
    out: str
    err: str
    outside: list[str]  # what it wrote or changed that is not below its folder

    @property
    def refused(self):
        return self.code == 2

    def fault(self):
        """Why this is neither a run nor a refusal in one sentence; None: it is one of the two."""
        sentences = [line for line in self.err.splitlines() if line.startswith("error: ")]
        if self.code == -signal.SIGKILL and TOLD.decode() in self.out:
            return None
        if self.code == -signal.SIGKILL:
            return f"no end within {self.seconds:.0f} s"
        if self.code not in (0, 2):
            return f"exit code {self.code}"
        if "Traceback" in self.err:
            return "a traceback"
        if self.outside:
            return f"it wrote {', '.join(self.outside)}"
        if self.code == 0:
            return f"exit code 0, and {sentences[0]!r}" if sentences else None
        last = self.err.rstrip("\n").rpartition("\n")[2]
        if len(sentences) != 1 or not last.startswith("error: ") or not last.endswith("."):
            return "exit code 2, and not one sentence"
        return None

    def __str__(self):
        return f"{self.line}\n  exit code {self.code} after {self.seconds:.1f} s\n{self.out[-600:]}\n{self.err[-3000:]}"


def ended(program, words, folder, seconds=60.0, memory=4e9):
    """Runs `python PROGRAM WORDS` in `folder` with so much time and so much more memory than this process has. A run
    that said how long it will take is not waited for."""
    names = [folder.parent / f"{folder.name}.{name}" for name in ("out", "err", "outside")]
    for name in names:  # what the one before printed must not be taken for this one's
        name.write_bytes(b"")
    begin = time.monotonic()
    child = os.fork()
    if not child:
        _become(program, words, folder, names, memory)
    status = _waited(child, names[0], begin + seconds)
    took = time.monotonic() - begin
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started and left behind
    out, err, outside = (name.read_text(encoding="utf-8", errors="replace") for name in names)
    start = ["python", program] if program.endswith(".py") else ["python", "-m", program]
    return Ended(shlex.join([*start, *words]), os.waitstatus_to_exitcode(status), took, out, err, outside.splitlines())


def _waited(child, out, end):
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > end or TOLD in out.read_bytes():
            os.killpg(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1]
        time.sleep(0.005)


def _become(program, words, folder, names, memory):
    """The rest of the child's life."""
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        out, err, outside = (os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in names)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") for fd in (1, 2))
        os.environ.update(HOME=str(folder), XDG_CACHE_HOME=str(folder / "cache"), MPLCONFIGDIR=str(folder / "cache"))
        for name in ("FEDBENCH_DATA", "FEDBENCH_GROUP", "NETRC", "PYTEST_CURRENT_TEST"):
            os.environ.pop(name, None)
        most = int(_addresses() + memory)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.addaudithook(_watch(folder, outside))
        code = _main(program, words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code or 0)


def _main(program, words):
    sys.argv = [program, *words]
    if program == "bench.py":
        from bench.main import command

        return command(words)
    if program in ("bench", "datamodules"):
        module = __import__(f"{program}.__main__", fromlist=["main"])
        return module.main(words)
    return __import__(f"{program}.__main__", fromlist=["main"]).main()


def _watch(folder, outside):
    """Notes every file that is written or changed and does not lie below the folder."""

    def hook(event, args):
        path = None
        if event == "open" and isinstance(args[2], int) and args[2] & WRITES:
            path = args[0]
        elif event in CHANGES:
            path = args[CHANGES[event]]
        if isinstance(path, bytes | str | Path):
            full = os.path.realpath(os.fsdecode(path))
            if not full.startswith((f"{folder}/", *SYSTEMS)) and full != str(folder) and "__pycache__" not in full:
                os.write(outside, f"{full} ({event})\n".encode("utf-8", "backslashreplace"))

    return hook


def _addresses():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
