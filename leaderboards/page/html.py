"""HTML that cannot be written unescaped: text becomes Html only through `el` and `text`."""

from __future__ import annotations

from html import escape
from typing import Any

VOID = ("meta", "link", "input", "br", "col")


class Html(str):
    """Markup; every other string is text."""

    __slots__ = ()


def text(value: object) -> Html:
    return value if isinstance(value, Html) else Html(escape(str(value)))


def el(tag: str, *children: object, **attributes: Any) -> Html:
    """An element. class_ is class, data_x is data-x; None and False leave an attribute out, True has no value."""
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    if tag in VOID:
        return Html(opening)
    return Html(f"{opening}{joined(*children)}</{tag}>")


def joined(*children: object) -> Html:
    """Children one after another; None is nothing, lists are flattened."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, list | tuple):
            parts.append(joined(*child))
        elif child is not None:
            parts.append(text(child))
    return Html("".join(parts))
