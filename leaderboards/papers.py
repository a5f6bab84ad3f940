"""The papers of the ledger: each file in claims/ is one, and its protocol says what it is."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import yaml  # type: ignore[import-untyped]

from bench.errors import UserError


class LedgerError(UserError):
    """The claims are not what they should be; the sentence names the row."""


@dataclass(frozen=True)
class Paper:
    """claims/<key>.csv, with protocol=<key> and sweeps/<key>.py."""

    key: str
    name: str
    title: str
    venue: str
    own: tuple[str, ...]  # what it proposes, as its claims say it, * too; everything else is compared with the first

    def owns(self, method: str) -> bool:
        return any(fnmatchcase(method, pattern) for pattern in self.own)


@cache
def papers() -> dict[str, Paper]:
    """In alphabetical order."""
    found = (entry.name for entry in (files("leaderboards") / "claims").iterdir())
    return {name[:-4]: _read(name[:-4]) for name in sorted(found) if name.endswith(".csv")}


def _read(key: str) -> Paper:
    path = f"bench/conf/protocol/{key}.yaml"
    try:
        text = (files("bench") / "conf" / "protocol" / f"{key}.yaml").read_text(encoding="utf-8")
        content: dict[str, Any] = dict(yaml.safe_load(text) or {})
    except FileNotFoundError:
        raise LedgerError(f"claims/{key}.csv has no protocol: write {path}, or take the claims away.") from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError):
        raise LedgerError(f"{path} is not readable as a table of keys.") from None
    content["own"] = content.get("own") or content.get("methods")
    if missing := [word for word in ("paper", "title", "venue", "own") if not content.get(word)]:
        raise LedgerError(f"{path} does not say its {', '.join(missing)}, which the pages of a paper need.")
    name, title, venue = (str(content[word]) for word in ("paper", "title", "venue"))
    return Paper(key, name, title, venue, tuple(content["own"]))
