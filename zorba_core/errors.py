"""Errors that a person reads. Each message is one line that says what is wrong, where, and how to fix it.

The command line prints the message on stderr and leaves with :attr:`ZorbaError.exit_status`; the dashboard shows it in
place. Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_WORD = 300  # characters; paths are shorter


class ZorbaError(Exception):
    """Base of every error raised on purpose. ``exit_status`` is what the command line leaves with."""

    exit_status = 1


class InvalidInputError(ZorbaError):
    """The request itself is wrong: a field out of range, a file in the wrong shape, an unknown name."""

    exit_status = 2


class InfeasibleError(ZorbaError):
    """The request is well formed but cannot be met, e.g. a client that cannot hold one block.

    ``clients`` are the 0-based indices of the clients at fault (empty when no single client is).
    """

    exit_status = 2

    def __init__(self, message: str, *, clients: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.clients = tuple(int(client) for client in clients)


class MissingDataError(ZorbaError):
    """A dataset, model or artifact is not where it was looked for; the message names every way to provide it."""

    exit_status = 2


class RunError(ZorbaError):
    """A run started and failed."""

    exit_status = 1


def name_some(items: Sequence[object], limit: int = 5) -> str:
    """``"0, 3, 7 and 12 more"``: names the first ``limit`` items so that a message stays one line."""
    shown = ", ".join(str(item) for item in items[:limit])
    rest = len(items) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def in_short(value: object, limit: int = 60) -> str:
    """``repr(value)`` for a message, cut where it is long; a whole number of any size by its number of digits."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def printable(text: str) -> str:
    """One line without what moves a terminal's cursor or hides text, as words of others may."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def first_line(error: BaseException) -> str:
    """What a library says first; its error's name where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def one_line(error: BaseException | str) -> str:
    """The error's message without line breaks, without what no terminal or page can show, and with words of hundreds
    of characters cut: a number of 400 digits says nothing more."""
    words = [word if len(word) <= _LONGEST_WORD else f"{word[:60]}...{word[-20:]}" for word in str(error).split()]
    return " ".join(words).encode("utf-8", "backslashreplace").decode()
