"""Registries of named parts, to which other packages can add: solvers, methods, estimators, directions, tasks.

A part is an object with a ``name`` and all facts that the command, the dashboard and the notebooks show about it. A
script adds one with :meth:`Registry.register`, an installed package with an entry point of the registry's group::

    [project.entry-points."zorba.solvers"]
    dice = "my_package:dice"

Entry points are loaded when the names are first listed, or when a name is not one of this package's. If one cannot be
loaded, or its part's name is taken, one line on stderr names it, and it is skipped.
"""

from __future__ import annotations

import importlib.metadata
import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from zorba_core.errors import InvalidInputError


class Named(Protocol):
    """What every part has."""

    @property
    def name(self) -> str: ...


Part = TypeVar("Part", bound=Named)


class Registry(Mapping[str, Part], Generic[Part]):
    """Parts by name, in the order of registration.

    Args:
        what: one word for a part in messages ("solver").
        group: entry points of this group are parts from installed packages.
        kind: the class of a part.
        home: called once at first use, to register this package's parts; for parts that take long to make.
    """

    def __init__(self, what: str, group: str, kind: type[Part], home: Callable[[], None] | None = None) -> None:
        self.what, self.group, self.kind = what, group, kind
        self._home, self._complete = home, False
        self._parts: dict[str, Part] = {}

    def register(self, part: Part) -> Part:
        """Add a part and return it.

        Raises:
            InvalidInputError: it is not of the registry's kind, it has no name or help, or its name is taken.
        """
        self._read_own()
        if not isinstance(part, self.kind):
            raise InvalidInputError(f"this is no {self.what}: {type(part).__name__} is not a {self.kind.__name__}")
        for fact in self.kind.__annotations__.keys() & {"name", "title", "help"}:
            if not isinstance(getattr(part, fact, None), str):
                raise InvalidInputError(f"this {self.what} has no {fact}; it is shown where {self.what}s are listed")
        if self._parts.setdefault(part.name, part) is not part:  # decorator and entry point may name one object
            raise InvalidInputError(
                f"there is a {self.what} {part.name!r} already; give yours another name, or unregister it first"
            )
        return part

    def unregister(self, name: str) -> None:
        """Remove a part that a script or a test added."""
        del self._parts[name]

    def get_part(self, name: str) -> Part:
        """The part of this name.

        Raises:
            InvalidInputError: no such part; the message lists all names.
        """
        if name not in self:
            raise InvalidInputError(f"unknown {self.what} {name!r}; choose one of {', '.join(self)}")
        return self[name]

    def meanings(self) -> dict[str, str]:
        """Each part's line of help, by name: the choices of an option."""
        return {name: cast(Any, part).help for name, part in self.items()}

    def __getitem__(self, name: str) -> Part:
        self._read_own()
        if name not in self._parts:  # only then: this package's modules read parts while they load
            self._read_packages()
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        self._read_packages()
        return iter(self._parts)

    def __len__(self) -> int:
        self._read_packages()
        return len(self._parts)

    def _read_own(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            home()

    def _read_packages(self) -> None:
        self._read_own()
        if self._complete:
            return
        self._complete = True
        for entry in sorted(importlib.metadata.entry_points(group=self.group), key=lambda entry: entry.name):
            try:
                self.register(entry.load())
            except (Exception, SystemExit) as error:  # importing another package can fail in any way
                reason = " ".join(str(error).split()) or type(error).__name__
                package = f" of {entry.dist.name}" if entry.dist else ""
                logging.getLogger(__name__).warning(
                    "zorba: plugin %s%s (%s, %s) is skipped: %s", entry.name, package, entry.group, entry.value, reason
                )


def imported(code: Any) -> Any:
    """The object that a string ``"module:name"`` refers to; anything but a string is returned unchanged.

    A part that refers to its function this way can be listed without importing the function's module.

    Raises:
        InvalidInputError: there is no such object, or its module cannot be imported.
    """
    try:
        return pkgutil.resolve_name(code) if isinstance(code, str) else code
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"{code} cannot be imported: {' '.join(str(error).split())}") from None
