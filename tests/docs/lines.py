"""The commands that README and docs show: lines of code blocks, and commands in running text.

`<!-- not run: REASON -->` before a block says why no test can run its commands, `<!-- not run (WORDS): REASON -->`
of those lines only that contain WORDS. They are still checked as far as that goes without running them.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
COMMAND = re.compile(r"(python|make) ")
INLINE = re.compile(r"`((?:python|make) [^`]+)`")
MARK = re.compile(r"<!-- not run(?: \((.+?)\))?: (.+?) -->")


@dataclass(frozen=True)
class Line:
    text: str
    page: str
    shown: bool = True  # in a code block, to be copied
    reason: str | None = None  # why no test runs it

    def words(self) -> list[str]:
        """As a shell splits them, which would expand {a,b}; what stands for anything (...) is left out."""
        command = self.text.replace("<id>", "ID")
        done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True)
        return [word for word in done.stdout.split("\0")[1:-1] if "..." not in word]


def lines(page: Path) -> list[Line]:
    found, marks, inside, code = [], list[tuple[str, str]](), False, False
    for text in page.read_text(encoding="utf-8").splitlines():
        if text.startswith("```"):
            inside, code = not inside, text == "```"
            marks = marks if inside else []
        elif inside and code and COMMAND.match(text):
            reason = next((why for words, why in marks if words in text), None)
            found.append(Line(text, page.name, reason=reason))
        elif not inside and (mark := MARK.fullmatch(text)):
            marks.append((mark[1] or "", mark[2]))
        elif not inside:
            found += [Line(match, page.name, shown=False) for match in INLINE.findall(text)]
    return found


def every() -> list[Line]:
    """Each command once; one that stands in a block counts as shown."""
    there: dict[str, Line] = {}
    for line in (line for page in PAGES for line in lines(page)):
        key = " ".join(line.words())
        if key not in there or (line.shown and not there[key].shown):
            there[key] = line
    return list(there.values())
