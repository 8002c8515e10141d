"""Named parts that others may add to: solvers, methods, estimators, directions, tasks, pages.

A part is one object with a ``name`` and all that the command, the dashboard and the notebooks show of it. This package
registers its own; a script adds one by :meth:`Registry.register`; an installed package adds its own through an entry
point of the registry's group::

    [project.entry-points."zorba.solvers"]
    dice = "my_package:dice"

Entry points are loaded when a registry is first read. One that cannot be loaded, or that names a part which exists, is
one warning line on stderr that names it, and nothing else changes.
"""

from __future__ import annotations

import importlib.metadata
import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from zorba_core.errors import InvalidInputError


class Named(Protocol):
    @property
    def name(self) -> str: ...


Part = TypeVar("Part", bound=Named)


class Registry(Mapping[str, Part], Generic[Part]):
    """Parts by name, in the order of registration.

    Args:
        what: one word for a part, as messages say it ("solver").
        group: entry points of this group are parts from installed packages.
        accepts: says in one sentence what is wrong with an object from outside; None where it is a part.
        home: called once before the first reading, to register this package's own parts (it imports their modules).
    """

    def __init__(
        self,
        what: str,
        group: str,
        *,
        accepts: Callable[[object], str | None],
        home: Callable[[], None] = lambda: None,
    ) -> None:
        self.what, self.group = what, group
        self._accepts, self._home = accepts, home
        self._parts: dict[str, Part] = {}
        self._state = "new"  # then "own" while our own parts are made, then "complete"

    def register(self, part: Part) -> Part:
        """Add a part and return it.

        Raises:
            InvalidInputError: not such a part, or its name is taken.
        """
        self._read_own()
        problem = self._accepts(part)
        if problem:
            raise InvalidInputError(f"this is no {self.what}: {problem}")
        if self._parts.get(part.name) is part:  # a decorator and an entry point name the same object
            return part
        if part.name in self._parts:
            raise InvalidInputError(f"there is a {self.what} {part.name!r} already; give yours another name")
        self._parts[part.name] = part
        return part

    def unregister(self, name: str) -> None:
        """Take a part out again: for a script or a test that added it.

        Raises:
            InvalidInputError: no such part.
        """
        self.get_part(name)
        del self._parts[name]

    def get_part(self, name: str) -> Part:
        """The part of this name.

        Raises:
            InvalidInputError: no such part; the message names those that there are.
        """
        if name not in self:
            raise InvalidInputError(f"unknown {self.what} {name!r}; choose one of {', '.join(self)}")
        return self[name]

    def meanings(self) -> dict[str, str]:
        """What each part is, in its own line of help, by name: the choices of an option."""
        return {name: part.help for name, part in self.items()}

    def __getitem__(self, name: str) -> Part:
        self._read_own()
        if name not in self._parts:  # ours are read while modules load, when packages cannot be imported yet
            self._complete()
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(self._parts)

    def __len__(self) -> int:
        self._complete()
        return len(self._parts)

    def _read_own(self) -> None:
        if self._state == "new":
            self._state = "own"
            self._home()

    def _complete(self) -> None:
        if self._state == "complete":
            return
        self._read_own()
        if self._state != "own":
            return
        self._state = "complete"
        for entry in sorted(importlib.metadata.entry_points(group=self.group), key=lambda entry: entry.name):
            try:
                self.register(entry.load())
            except (Exception, SystemExit) as error:  # whatever somebody else's package does while it is imported
                reason = " ".join(str(error).split()) or type(error).__name__
                package = f" of {entry.dist.name}" if entry.dist else ""
                logging.getLogger("zorba").warning(
                    "zorba: plugin %s%s (%s, %s) is left out: %s", entry.name, package, entry.group, entry.value, reason
                )


def instance_of(kind: type) -> Callable[[object], str | None]:
    """For ``accepts``: only objects of this class are parts."""
    return lambda part: None if isinstance(part, kind) else f"{type(part).__name__} is not a {kind.__name__}"


def imported(code: Any) -> Any:
    """What a part's ``"module:name"`` names, imported now; anything but a string is returned as it is.

    A part that names its function this way can be listed without importing what the function needs.

    Raises:
        InvalidInputError: there is nothing of that name, or its module cannot be imported.
    """
    try:
        return pkgutil.resolve_name(code) if isinstance(code, str) else code
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"{code} cannot be imported: {' '.join(str(error).split())}") from None
