"""A table of a paper as a dict."""

from __future__ import annotations

from collections.abc import Callable

from leaderboards.ledger import load

Numbers = dict[tuple[str, ...], float]
Entry = tuple[str, str, Callable[[], str]]  # where; what the paper says; what comes out


def cells(paper: str, where: str, metric: str, *columns: str) -> Numbers:
    """The numbers of one metric in one place of a paper, by these columns; what was never reached is left out."""
    return {
        tuple(getattr(claim, name) for name in columns): claim.number
        for claim in load()
        if (claim.paper, claim.where, claim.metric) == (paper, where, metric) and claim.value is not None
    }
