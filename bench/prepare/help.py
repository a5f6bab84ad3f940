"""The text of `python bench.py --help`: plain, and made from the dataclasses and files themselves."""

from __future__ import annotations

import textwrap
from dataclasses import MISSING, Field, fields
from typing import Any

from bench.errors import program
from bench.prepare import registry
from bench.prepare.config import DEFAULTS, GROUPS, SCHEMAS, Keys
from bench.prepare.resolve import CONF, options

EXAMPLES = (
    ("", "fedavg on the bundled digits"),
    ("algo=fedprox algo.mu=0.1 seed=1", "another algorithm, one of its fields"),
    ("-m algo=fedavg,scaffold seed=0,1,2", "six runs and a table over them"),
    ("-m 'algo=glob(*)' rounds=10", "every algorithm"),
    ("partition=dirichlet partition.alpha=0.6", "other data on the devices"),
    ("algo=fedlga dataset=fmnist protocol=fedlga", "a paper's setting"),
    ("dataset=fmnist scale=smoke", "does it run at all?"),
    ("upload=topk+quantise upload.fraction=0.05", "devices send a twentieth, in few bits"),
    ("algo=./mine.py dataset=./data.py", "classes in files of your own: docs/own_algorithm.md"),
    ("model=custom model.target=./net.py:Net", "a LightningModule of your own: docs/own_model.md"),
    ("resume=runs/<id>", "continue an interrupted run"),
    ("--cfg job lr=0.1", "what was given, without running"),
)
AUTO = {
    "protocol": ": the algorithm's own paper's, or the data set's home paper's",
    "task": ": the data set's",
    **dict.fromkeys(("model", "partition", "devices", "optimizer"), ": the protocol's or the data set's"),
    "upload": "; one after the other as in upload=topk+quantise",
}


def text() -> str:
    """Everything that can be put on the command line."""
    parts = [
        f"usage: {program()} [-m] [key=value ...]\n\n"
        "Runs a federated benchmark and records it in runs/<id>/. With -m every combination of the values that are\n"
        "separated by commas is run, and a table compares them; stopped, it goes on when the same words are\n"
        "typed again. What is left open is filled by the data set, then by the protocol, then by the scale.",
        *(_section(group, option) for group, option in DEFAULTS.items()),
        "Keys\n" + "\n".join(_keys(Keys, "")),
        *("Keys of " + group + "\n" + "\n".join(_keys(schema, f"{group}.")) for group, schema in SCHEMAS.items()),
        "Examples\n" + "\n".join(f"  {f'{program()} {words}':<60} # {what}" for words, what in EXAMPLES),
        "Keys and values in the shell's completion: --shell-completion install=bash, zsh or fish. "
        "Tables of finished runs:\npython -m leaderboards",
    ]
    return "\n\n".join(parts)


def _section(group: str, default: str) -> str:
    rows = _dataclasses(group) if group in registry.BASES else _files(group)
    lines = [f"  {name:<13} {line}" for name, what in rows for name, line in _wrapped(name, what, 103)]
    own = ["  ./file.py     The one in a file of your own; ./file.py:Name where it has several."]
    head = f"{group}=  ({GROUPS[group]}, default: {default}{AUTO.get(group, '')})"
    return "\n".join([head, *lines, *(own if group in registry.BASES else [])])


def _wrapped(name: str, what: str, width: int) -> list[tuple[str, str]]:
    lines = textwrap.wrap(what, width) or [""]
    return [(name if i == 0 else "", line) for i, line in enumerate(lines)]


def _dataclasses(group: str) -> list[tuple[str, str]]:
    rows = []
    for name, cls in registry.classes(group).items():
        what = getattr(cls, "title", None) or registry.title(cls)
        own = ", ".join(f"{group}.{key}={shown(value)}" for key, value in registry.defaults(cls).items())
        rows.append((name, f"{what.rstrip('.')}{f' [{own}]' if own else ''}"))
    return rows


def _files(group: str) -> list[tuple[str, str]]:
    """A paper's protocol says whose it is; other files begin with a comment that says what they are."""
    rows = []
    for name, content in options(group).items():
        comment = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8").partition("\n")[0]
        first = f"{content['paper']}, {content['venue']}." if "paper" in content else comment.removeprefix("#").strip()
        covers = ", ".join(content.get("datasets", ()))
        rows.append((name, first + (f" Covers {covers}." if covers else "")))
    return rows


def _keys(schema: type, prefix: str) -> list[str]:
    lines = []
    for f in fields(schema):
        if "help" in f.metadata:
            choices = f": {' | '.join(f.metadata['choices'])}" if "choices" in f.metadata else ""
            what = f"{f.metadata['help']}{choices} [{_default(f)}]"
            lines += [f"  {name:<26}{line}" for name, line in _wrapped(prefix + f.name, what, 92)]
    return lines


def _default(f: Field[Any]) -> str:
    if f.default_factory is not MISSING:
        return shown(f.default_factory())
    return "the data set's" if f.default is MISSING else shown(f.default)


def shown(value: Any) -> str:
    """As it is written on the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
