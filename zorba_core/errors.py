"""Errors for users. Each message is one line: what is wrong, where, and how to fix it.

The command prints the message on stderr and exits with :attr:`ZorbaError.exit_status`; the dashboard shows it. Any
other exception that reaches a user is a bug of this package.
"""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_WORD = 300  # characters; most paths are shorter


class ZorbaError(Exception):
    """Base of all errors of this package. ``exit_status`` is the exit status of the command."""

    exit_status = 1


class InvalidInputError(ZorbaError):
    """The request is wrong: a value out of range, a file of the wrong form, an unknown name."""

    exit_status = 2


class InfeasibleError(ZorbaError):
    """The request is valid but cannot be met, for example if a client cannot hold one block."""

    exit_status = 2


class MissingDataError(ZorbaError):
    """A data set, model or file is missing; the message names every way to provide it."""

    exit_status = 2


class RunError(ZorbaError):
    """A run failed after its start."""

    exit_status = 1


def name_some(items: Sequence[object], limit: int = 5) -> str:
    """``"0, 3, 7 and 12 more"``: the first ``limit`` items, and how many follow."""
    shown = ", ".join(str(item) for item in items[:limit])
    rest = len(items) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def in_short(value: object, limit: int = 60) -> str:
    """``repr(value)`` for a message, cut to ``limit`` characters; a phrase for a whole number above 128 bits."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def printable(text: str) -> str:
    """One line, with spaces for characters that cannot be printed: a client's text may control the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; the name of its class if that is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def one_line(error: BaseException | str) -> str:
    """The error's message in one line, without characters that UTF-8 cannot encode, and with very long words cut."""
    words = [word if len(word) <= _LONGEST_WORD else f"{word[:60]}...{word[-20:]}" for word in str(error).split()]
    return " ".join(words).encode("utf-8", "backslashreplace").decode()
