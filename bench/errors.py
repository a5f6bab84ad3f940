"""What a user did wrong, in one sentence; bench/main.py prints it and exits with code 2."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """One sentence that names what was given and what is allowed."""


class Diverged(UserError):
    """A loss or an update that is not a finite number; the record is kept."""

    def __init__(self, round: int, client: int | None, what: str) -> None:
        who = "the aggregated model" if client is None else f"client {client}"
        self.facts = {"round": round, "client": client, "what": what}
        super().__init__(
            f"Round {round}: {who} diverged ({what}); try a smaller lr, or on_divergence=drop, which leaves it out."
        )


def unknown(what: str, given: str, known: Iterable[str], listing: str | None = None) -> UserError:
    """The error for a name that does not exist, with the nearest ones that do."""
    names = sorted(known)
    near = get_close_matches(given.lower(), names, n=3, cutoff=0.5)
    nearest = f", nearest: {', '.join(near)}" if near else ""
    return UserError(f"Unknown {what} '{given}'{nearest}; {listing or 'choose from ' + ', '.join(names)}.")
