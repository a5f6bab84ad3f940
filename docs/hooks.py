"""Pages of the site that are made from the code: one per method, the protocols, the audit of the papers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from algorithms.base import Algorithm
from bench.prepare.registry import classes
from leaderboards.audit import markdown as audit
from leaderboards.verdict import Verdict, all_verdicts, number

ROOT = Path(__file__).parents[1]
AUDIT = """# Audit of the papers

Where the papers contradict themselves; `python -m leaderboards audit` computes it."""
PROTOCOLS = """# Protocols

Every value of a paper's setting stands in one file, with the place in the paper beside it; `ours` is what the paper
leaves open. `protocol=NAME` chooses one; by itself a run takes that of the method's own paper where it covers the data
set, otherwise that of the data set's home paper. `heavy` is what `scale=cpu` makes smaller."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, config: MkDocsConfig, files: Files, page: Page) -> str:
    """A link to a file of the repository that is no page becomes its name; methods in the table lead to their pages."""
    if page.file.src_path == "methods.md":
        names = "|".join(classes("algo"))
        markdown = re.sub(
            r"(?<=^\| )[a-z0-9_, ]+(?= \|)",
            lambda m: re.sub(rf"\b({names})\b", r"[\1](methods/\1.md)", m[0]),
            markdown,
            flags=re.M,
        )
    return re.sub(r"\[([^\]]*)\]\(\.\./([^)]*)\)", r"`\2`", markdown)


def pages() -> Iterator[tuple[str, str]]:
    verdicts = all_verdicts()
    methods = classes("algo")
    for name, cls in methods.items():
        yield f"methods/{name}.md", method(name, cls, [v for v in verdicts if v.claim.method == name])
    yield "protocols.md", protocols()
    yield "audit.md", f"{AUDIT}\n\n{audit()}\n"


def method(name: str, cls: type[Algorithm], verdicts: list[Verdict]) -> str:
    title, _, rest = inspect.getdoc(cls).partition("\n")
    rest = re.sub(r"(?<=:\n)(?=- )", "\n", rest.strip())  # Markdown begins a list after an empty line
    parts = [f"# {name}", title, rest]
    if formulas := row("The formulas", name):
        parts += ["## Formula", formulas, "The symbols are those of [all methods](../methods.md#the-formulas)."]
    parts += ["## What it uses of the interface", row("What each method", name) or own_hooks(cls)]
    if rows := [f"| `algo.{f.name}` | {f.default} | {bounds(f.metadata)} |" for f in fields(cls)]:
        parts += ["## Fields", "| field | default | bounds |\n|---|---|---|\n" + "\n".join(rows)]
    if verdicts:
        head = "| claim | where | claimed | measured | verdict |\n|---|---|---|---|---|\n"
        parts += ["## Its rows of the ledger", head + "\n".join(map(claim, verdicts))]
    source = inspect.getsource(inspect.getmodule(cls)).rstrip()
    parts += ["## Run it", f"```\npython bench.py algo={name} dataset=digits\n```"]
    parts += ["## The code", f"```python\n{source}\n```"]
    return "\n\n".join(parts) + "\n"


def row(section: str, name: str) -> str:
    """The method's row of that section's table in methods.md, as a list; a method that was just added has none."""
    text = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    part = next(part for part in re.split(r"^#+ ", text, flags=re.M) if part.startswith(section))
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    for cells in table[2:]:
        if name in cells[0].replace(",", " ").split():
            return "\n".join(f"- {what}: {cell}" for what, cell in zip(table[0][1:], cells[1:], strict=True) if cell)
    return ""


def own_hooks(cls: type[Algorithm]) -> str:
    """What a class overrides of FedAvg, as a list."""
    public = [name for name in vars(Algorithm) if not name.startswith("_")]
    changed = [name for name in public if getattr(cls, name) is not getattr(Algorithm, name)]
    return "\n".join(f"- `{name}`" for name in changed) or "Nothing: it is FedAvg."


def bounds(metadata: dict[str, float]) -> str:
    words = {"min": ">=", "above": ">", "max": "<=", "below": "<"}
    return ", ".join(f"{words[key]} {value}" for key, value in metadata.items() if key in words)


def claim(v: Verdict) -> str:
    measured = "" if v.measured is None else number(v.measured)
    what = f"{v.claim.dataset}, {v.claim.setting}: {v.claim.metric}"
    return f"| {what} | {v.claim.where} | {v.claim.text} | {measured} | {v.verdict} |"


def protocols() -> str:
    parts = [PROTOCOLS]
    for path in sorted((ROOT / "bench/conf/protocol").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if "datasets:" in text:
            parts += [f"## {path.stem}", f"```yaml\n{text}```"]
    return "\n\n".join(parts) + "\n"
