"""A user's own code: a class in a file (./net.py:Net) or in a package (my_package.Net). Errors are one sentence."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import given, trust
from bench.errors import UserError, first_line, of_machine, unknown
from datamodules.base import DataError

_PREFIX = "own_"
PACKAGES = ("algorithms", "bench", "datamodules", "leaderboards", "sweeps", "torch")


def fingerprint(target: str) -> str:
    """SHA-256 of the file that holds the class."""
    if given.is_name(target):
        return given.digest(target)
    found = trust.split(target)
    path = found[0] if found else Path(str(_import(target.rpartition(".")[0], target).__file__))
    return sha256(path.read_bytes()).hexdigest()


def load_file(path: Path) -> ModuleType:
    """The module in a file that was named. The same text is executed once, so that a class stays the same class."""
    _require(str(path))
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None
    name = _PREFIX + sha256(str(path).encode() + b"\0" + source).hexdigest()[:16]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up there
    try:
        with _importable(path.parent):
            exec(compile(source, str(path), "exec"), vars(module))  # without a __pycache__ in the user's folder
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"{path} cannot be loaded: {reason(error, path)}.") from None
    return module


def load(target: str) -> Any:
    """What /path/file.py:Name or package.module.Name names."""
    if found := trust.split(target):
        path, name = found
        module, where = load_file(path), str(path)
    else:
        where, _, name = target.rpartition(".")
        module = _import(where, target)
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if inspect.isclass(value)]
        raise unknown(f"class in {where}", name, known, None if known else "it has none")
    return getattr(module, name)


def _require(target: str) -> None:
    if not trust.is_named(target):
        raise UserError(f"{target} is code that the command line does not name, so it is not run.")


def _import(name: str, target: str) -> ModuleType:
    _require(target)
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            raise UserError(
                f"There is no module {missing} for {target}, neither in {Path.cwd()} nor among the installed ones."
            ) from None
        raise UserError(f"{name} cannot be imported: {reason(error)}.") from None


def target(cls: type) -> str:
    """What `load` finds the class by."""
    if cls.__module__.startswith(_PREFIX):
        return f"{sys.modules[cls.__module__].__file__}:{cls.__qualname__}"
    return f"{cls.__module__}.{cls.__qualname__}"


def reason(error: BaseException, path: Path | None = None) -> str:
    """Kind, first line and, where it is in the file (by default: in code that is not installed), the place."""
    if isinstance(error, UserError) and error.__cause__ is not None:  # told already
        error = error.__cause__
    text = first_line(error)
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        text, frames = error.msg, [*frames, (error.filename or "", error.lineno)]
    mine = [(Path(f), line) for f, line in frames if f == str(path) or (path is None and _is_users(f))]
    place = f" (line {mine[-1][1]} of {mine[-1][0].name})" if mine else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"


def is_own(what: object) -> bool:
    """Whether a class, or that of an object, comes from the user and not from the packages of fedbench."""
    cls = what if isinstance(what, type) else type(what)
    return cls.__module__.partition(".")[0] not in PACKAGES


@contextmanager
def calling(what: object, hook: str) -> Iterator[None]:
    """What the user's code raises in a hook (a method of the class or object `what`) is told by the hook's name and
    the lines around the place; fedbench's own keeps its traceback, since there it is a bug."""
    try:
        yield
    except (Exception, SystemExit) as error:
        tell(what, hook, error)
        raise


def tell(what: object, hook: str, error: BaseException) -> None:
    """Raises what `calling` does; returns where the error is to go on as it is."""
    if not is_own(what) or isinstance(error, DataError | BrokenPipeError) or of_machine(error) is not None:
        return
    cls = what if isinstance(what, type) else type(what)
    raise UserError(f"{hook} of {target(cls)} failed: {reason(error)}.{_lines(error)}") from error


def _lines(error: BaseException) -> str:
    """Five lines of the user's file, that where it failed in their middle, to follow a sentence; or nothing."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    if not frames or frames[-1].lineno is None:
        return ""
    file, line = frames[-1].filename, frames[-1].lineno
    around = [(number, linecache.getline(file, number).rstrip()) for number in range(max(1, line - 2), line + 3)]
    return "".join(f"\n{'>' if number == line else ' '} {number:4} | {text}" for number, text in around if text)


def _is_users(file: str) -> bool:
    return "site-packages" not in file and not file.startswith(
        (f"{sys.base_prefix}/", f"{Path(__file__).parent}/", "<")
    )


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """What lies in the folder can be imported, as for a script there; `python bench.py` has only its own folder."""
    import datamodules._torchvision  # noqa: F401  # before the user's code imports Lightning or torchvision

    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
