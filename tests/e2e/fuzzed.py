"""Command lines to be tried, made from the schema: its keys, types, bounds and choices, and what people mistype."""

import types
from dataclasses import fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from bench.prepare import registry
from bench.prepare.config import DEFAULTS, GROUPS, SCHEMAS, Keys
from bench.prepare.resolve import names_of

SMALL = {"logger": "none", "rounds": "2", "clients": "6", "cohort": "3", "epochs": "1", "checkpoint_seconds": "0"}
TEXTS = (
    *("", " ", "null", "None", "nan", "inf", "-inf", "true", "false", "yes", "???", "auto", "none", "x"),
    *("0", "-1", "1", "2", "3", "1.5", "1e400", "1e308", "1e-308", "0x10", "1_000", "9" * 5000, "1" + "0" * 400),
    *("9223372036854775807", "9223372036854775808", "4294967296", "1000000", "0.9999999999", "1e-9", "-0.0"),
    *("[]", "[1]", "[1,2]", "[2,1]", "[1,2,3]", "[[1]]", "[true]", "[nan]", "[a]", "[null]", "[1", "{}", "{a:1}", "{a"),
    *("'a b'", "'x", '"', "''", "\\", "a=b", "=", ":", "a:b", "a b", "a,b", "1,2", "(", "%s", "{0}", "$HOME", "#", ";"),
    *("${lr}", "${nope}", "${oc.env:HOME}", "${oc.env:NOPE}", "${algo.name}", "${", "${hydra:runtime.cwd}", "${.lr}"),
    *(
        "range(3)",
        "range(0)",
        "range(0,1,0)",
        "choice(1,2)",
        "glob(*)",
        "glob(f*)",
        "interval(0,1)",
        "int(1.5)",
        "int(x)",
    ),
    *("sort(2,1)", "shuffle(1,2)", "tag(a,1)", "extend_list(1)", "str([1])", "bool(2)", "float(1)", "json_str(1)"),
    *("é", "日本語", "🙂", "\u202e", "\u2028", "\x01", "\x1b[31m", "\t", "\n", "a\nb", "\x7f", "\udcff", "\ufeff"),
    *("a" * 300, "a" * 5000, "a." * 3000, "[" * 3000, "../x", "/", "/dev/null", "/dev/full", ".", "..", "~", "runs"),
    *("a_file", "a_file.py", "./a_file.py", "./missing.py", "./a_file.py:Name", "./missing.py:", "os.system", "os"),
    *("runs/finished", "runs/stopped", "runs/finished/config.yaml", "torch.nn.Linear", "a.b.C", "./a folder/x.py"),
)
PLACES = ("", "runs", "new", "a/b/c", "a_file", "a_file/below", "/dev/null", "/dev/null/x", "/proc/x", "é", "a b", ".")
PLACES += (
    "a" * 300,
    "null",
    "[]",
    "1",
    "true",
    "${oc.env:HOME}",
    "${nope}",
    "{a:1}",
    "'x,y'",
    "\x01",
    "a\nb",
    "-",
    "%",
)
OPTIONS = ("-m", "--multirun", "-c", "--cfg", "--cfg=job", "job", "-h", "--help", "-sc", "--resolve", "--", "-", "--cf")
OPTIONS += ("--shell-completion", "install=bash", "query=fish", "query=x", "--png=x", "--m", "-x", "-mc", "---", "--=1")
RECORDS = ("out", "resume", "engine.address")  # have values of their own
PICTURES = (
    "x.png",
    "x.svg",
    "x.exe",
    "x",
    "/",
    "",
    ".",
    "runs",
    "a_file",
    "no/such/x.png",
    "é.png",
    "a\nb.png",
    ".png",
)
TOOLS = {
    "bench": ("partition", "replay", "timeline", "speed", "replai", ""),
    "sweeps": ("list", "results", "fedlga/table4", "fedlc/fig7", "fed2a/table4", "fedagg/table4", "fedlga", "nope", ""),
    "leaderboards": ("table", "claims", "command", "add", "audit", "tabel", ""),
    "datamodules": ("list", "fetch", "lst", ""),
}
FLAGS = {
    "bench": ("--png", "--rounds", "--workloads", "--variants", "--repetitions", "--json", "--nope"),
    "sweeps": ("--workers", "--out", "--grace", "--trials", "--port", "--nope"),
    "leaderboards": ("--runs", "--group", "--plot", "--paper", "--where", "--verdict", "--nope"),
    "datamodules": ("--nope",),
}


@cache
def keys() -> dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]]:
    """Every key of a run: its type, its bounds or choices, and the word that it needs beside it."""
    found: dict[str, Any] = {}
    for prefix, schema in {"": Keys, **{f"{group}.": schema for group, schema in SCHEMAS.items()}}.items():
        hints = get_type_hints(schema)
        found |= {
            f"{prefix}{f.name}": (hints[f.name], dict(f.metadata), ()) for f in fields(schema) if f.name != "name"
        }
    for group in registry.BASES:
        for name, cls in registry.classes(group).items():
            hints = get_type_hints(cls)
            for f in fields(cls):
                chosen = () if name == DEFAULTS[group] else (f"{group}={name}",)
                found[f"{group}.{f.name} of {name}"] = (hints[f.name], dict(f.metadata), chosen)
    return found


def typed(hint: Any, allowed: dict[str, Any], wild: bool = True) -> st.SearchStrategy[str]:
    """Values of this type within their bounds; `wild`: also at them and beyond."""
    if "choices" in allowed:
        return st.sampled_from([*allowed["choices"], *(["null", allowed["choices"][0][:-1]] if wild else [])])
    if get_origin(hint) is Literal:
        return st.sampled_from([*map(str, get_args(hint)), *(["other"] if wild else [])])
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of([st.just("null") if a is type(None) else typed(a, allowed, wild) for a in get_args(hint)])
    if hint is bool:
        return st.sampled_from(["true", "false", *(["1", "0", "yes", "maybe"] if wild else [])])
    low, high = allowed.get("min", allowed.get("above")), allowed.get("max", allowed.get("below"))
    near = [str(bound + step) for bound in (low, high) if bound is not None for step in (-1, 0, 1, 0.001)]
    if hint is int:
        beyond = [st.integers().map(str), st.sampled_from([*near, "1"])] if wild else []
        return st.one_of(st.integers(1, 5).map(str), *beyond)
    if hint is float or hint is Any:
        inside = st.floats(low or 0.0, 3.0 if high is None else min(high, 3.0), exclude_min=True, exclude_max=True)
        beyond = [st.floats().map(repr), st.sampled_from([*near, "1"])] if wild else []
        return st.one_of(inside.map(repr), *beyond)
    if get_origin(hint) in (list, tuple):
        items = st.lists(typed(get_args(hint)[0], allowed, wild), min_size=0 if wild else 1, max_size=3)
        return items.map(lambda items: f"[{','.join(items)}]")
    return st.sampled_from(TEXTS)


def hostile() -> st.SearchStrategy[str]:
    return st.one_of(st.sampled_from(TEXTS), st.text(st.characters(exclude_characters="\0"), max_size=12))


@st.composite
def near(draw, names) -> str:
    """A name that exists, or nearly: a letter less, more or another."""
    name = draw(st.sampled_from(sorted(names)))
    if draw(st.booleans()):
        return name
    at, letter = draw(st.integers(0, len(name))), draw(st.sampled_from("aex_. Z9"))
    return draw(st.sampled_from([name[:at] + name[at + 1 :], name[:at] + letter + name[at:], name.upper(), name + "s"]))


@st.composite
def word(draw) -> list[str]:
    """One word of a run, with those that it needs."""
    kind = draw(st.sampled_from(["key"] * 12 + ["group"] * 3 + ["near", "raw", "option", "prefix"]))
    if kind == "group":
        group = draw(st.sampled_from(sorted(GROUPS)))
        names = {*names_of(group)} - ({"wandb", "wandb_online"} if group == "logger" else set())
        return [f"{group}={draw(st.one_of(near(names), near(names), hostile()))}"]
    if kind == "raw":
        return [draw(hostile())]
    if kind == "option":
        return [draw(st.sampled_from(OPTIONS))]
    name = draw(st.sampled_from(sorted(keys())))
    hint, allowed, needed = keys()[name]
    key = name.partition(" ")[0]
    if key == "out":
        return [f"out={draw(st.sampled_from(PLACES))}"]
    if key == "engine.address":
        return [f"{key}={draw(st.sampled_from(['local', 'here', 'ray://x', 'ray://', '', '[]', 'null', 'LOCAL']))}"]
    value = draw(st.one_of(typed(hint, allowed), typed(hint, allowed, wild=False), hostile()))
    if kind == "near":
        key = draw(near([key]))
    if kind == "prefix":
        key = draw(st.sampled_from(["+", "~", "++", "hydra.", "@"])) + key
    return [*needed, f"{key}={value}"]


@st.composite
def calm(draw) -> list[str]:
    """A word that is likely to be accepted."""
    if draw(st.integers(0, 2)) == 0:
        group = draw(st.sampled_from(["algo", "algo", "partition", "devices", "engine"]))
        return [f"{group}={draw(st.sampled_from(names_of(group)))}"]
    name = draw(st.sampled_from(sorted(name for name in keys() if name not in RECORDS)))
    hint, allowed, needed = keys()[name]
    return [*needed, f"{name.partition(' ')[0]}={draw(typed(hint, allowed, wild=False))}"]


@st.composite
def run(draw) -> tuple[str, list[str]]:
    """A command line of bench.py: a word that is tried, some calm ones, and what keeps the run small."""
    found = [*draw(word()), *(part for words in draw(st.lists(calm(), max_size=2)) for part in words)]
    tried = list({part.partition("=")[0]: part for part in reversed(found)}.values())[::-1]
    given = {part.partition("=")[0] for part in tried}
    rest = [f"{key}={value}" for key, value in SMALL.items() if key not in given and "resume" not in given]
    return "bench.py", [*tried, *rest]


@st.composite
def tool(draw) -> tuple[str, list[str]]:
    """A command line of one of the other programs; what they do at length is left out."""
    program = draw(st.sampled_from(sorted(TOOLS)))
    words = [draw(st.sampled_from(TOOLS[program]))]
    values = st.one_of(hostile(), st.sampled_from(["runs/finished", "runs", *PICTURES, "scale=cpu", "dataset=digits"]))
    for _ in range(draw(st.integers(0, 2))):
        words += draw(st.one_of(word(), values.map(lambda value: [value])))
    if draw(st.booleans()):
        flag = draw(st.sampled_from(FLAGS[program]))
        value = draw(st.sampled_from(PICTURES) if flag in ("--png", "--plot") else hostile())
        words += draw(st.sampled_from([[flag, value], [f"{flag}={value}"], [flag]]))
    if program == "sweeps":
        words.append("--dry-run")
    if words[:1] == ["speed"]:
        words.append("--repetitions=0")
    return program, words


def lines() -> st.SearchStrategy[tuple[str, list[str]]]:
    return st.one_of(run(), run(), run(), run(), tool())
