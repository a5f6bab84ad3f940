"""What a user did wrong, in one sentence; the commands print it and exit with code 2."""

from __future__ import annotations

import errno
import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

BROKEN_PIPE = 141  # the exit code of programs that SIGPIPE ends
_DISK = ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO")
_PATH = ("ENOTDIR", "EISDIR", "EEXIST", "ENAMETOOLONG", "ELOOP")
LONG = 300  # characters without a blank: nobody reads more of a value
_LONG_WORD = re.compile(rf"[^\s']{{{LONG + 1},}}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # and what is no Unicode
CHECKOUT, INSTALLED = "python bench.py", "fedbench"
NOT_OUR_FAULT = {getattr(errno, name) for name in (*_DISK, *_PATH)}


class UserError(ValueError):
    """One sentence that names what was given and what is allowed."""


class Diverged(UserError):
    """A loss or an update that is not a finite number; the record is kept."""

    def __init__(self, round: int, client: int | None, what: str) -> None:
        who = "the aggregated model" if client is None else f"client {client}"
        self.facts = {"round": round, "client": client, "what": what}
        drop = "" if client is None else ", or on_divergence=drop, which leaves it out"
        super().__init__(f"Round {round}: {who} diverged ({what}); try a smaller lr{drop}.")


class Parser(ArgumentParser):
    """Says what is wrong with its arguments in one sentence, as everything here does."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = sys.argv[1:] if args is None else args
        if unfit := next((word for word in words if _CONTROL.search(word)), None):
            raise UserError(f"{unfit!a} has a control character, or is not Unicode: keys, values and files have none.")
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        raise misused(self.prog, message)


def program() -> str:
    """How a benchmark is started here: in a checkout there is bench.py, elsewhere only what pip has installed."""
    there = (Path(__file__).resolve().parents[1] / "bench.py").is_file()
    return CHECKOUT if there and Path(sys.argv[0]).name != INSTALLED else INSTALLED


def first_line(error: BaseException) -> str:
    """Of its text, to be part of a sentence."""
    return str(error).strip().partition("\n")[0].rstrip(".")


def cannot_write(path: object, error: OSError, more: str = "") -> UserError:
    """A full disk, a quota, a folder that has become read-only."""
    return UserError(f"Cannot write {path}: {error.strerror or error}{more}.")


def misused(program: str, message: str) -> UserError:
    """What argparse says of a command line, as a sentence."""
    return UserError(f"{message[:1].upper()}{message[1:]}; see {program} --help.")


def unknown(what: str, given: str, known: Iterable[str], listing: str | None = None) -> UserError:
    """The error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    near = get_close_matches(given[:LONG].lower(), names, n=3, cutoff=0.5)
    nearest = f", nearest: {', '.join(near)}" if near else ""
    return UserError(f"Unknown {what} '{given}'{nearest}; {listing or 'choose from ' + ', '.join(names)}.")


def guarded(work: Callable[[], int], *also: type[Exception]) -> int:
    """A command's exit code: what its user did wrong (UserError and `also`) is told in one line, and a reader that
    went away (`| head`) ends it silently."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return hush()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, also):
            return refuse(error)
        if (known := of_machine(error)) is None:
            raise
        return refuse(known)


def refuse(error: Exception) -> int:
    print(f"error: {_LONG_WORD.sub(_shortened, str(error))}", file=sys.stderr, flush=True)
    return 2


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][:50]}... ({len(word[0])} characters)"


def hush() -> int:
    """Nobody reads any more: what is still buffered goes nowhere, or Python would complain when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
    return BROKEN_PIPE


def of_machine(error: BaseException) -> UserError | None:
    """A full disk or exhausted memory as the sentence it deserves; None for what may be a bug."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, OSError) and error.errno in NOT_OUR_FAULT:
        where = f" {error.filename}" if error.filename else ""
        return UserError(f"Cannot read or write{where}: {error.strerror}.")
    if isinstance(error, ImportError) and any(text in str(error) for text in ("map segment", "allocate memory")):
        return UserError(f"There is not enough memory to load the libraries ({first_line(error)}); is ulimit -v set?")
    exhausted = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if exhausted or (isinstance(error, RuntimeError) and "allocate memory" in str(error)):
        return UserError("There is not enough memory for this run: a smaller model, batch_size or engine.batch helps.")
    return None
