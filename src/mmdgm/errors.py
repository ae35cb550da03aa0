"""What goes wrong, in two kinds: the user can mend an `InputError`; a `WorkError` happened on the way."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something that was given breaks a rule; the message names it, the rule, what came, and the way out."""


class WorkError(RuntimeError):
    """The work itself failed (a download, a damaged file, a loss that is no number)."""


def unknown(what: str, word: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not among the known ones, with the nearest of them."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}."
    return InputError(f"unknown {what} '{word}'; {hint}")
