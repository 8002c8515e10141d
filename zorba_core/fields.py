"""One declaration for each field of a settings' dataclass: what it means and which values it may have.

A dataclass declares a field once::

    batch_size: int = setting(8, "rows a client and round.", symbol="B", at_least=1)

and everything else follows from the declaration: :func:`check` in ``__post_init__`` refuses a wrong value, the command
makes an option of the field (:mod:`zorba_core.cli.options`), the dashboard takes bounds, choices and help from
:func:`declared`. Conditions on two fields at once stay in ``__post_init__``.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from zorba_core.errors import InvalidInputError, in_short

Choices = Callable[[], Iterable[str]]
_KEY = "setting"
_FINITE = 1e300
_INSIDE = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt}
_KINDS = {bool: (bool, "true or false"), int: (Integral, "a whole number"), float: (Real, "a number")}


@dataclass(frozen=True)
class Field:
    """One declared field. ``kind`` is its type without None; ``optional`` says whether None is allowed."""

    help: str  # a sentence; {choices} stands for the names, and for what each means where choices() is a dict
    symbol: str = ""  # of the paper, such as "B"
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: Choices | None = None  # called when needed: a registry may load packages
    wrong: str = ""  # what a message says of a value out of range, where the bounds do not say enough
    said: str = ""  # how a message begins, where it is not "{name} is {value}"
    option: str = ""  # the name of its option, if it is not the field's
    key: str = ""  # its short name in an address
    label: str = ""  # of its control in a form
    step: float = 1  # of the control in a form
    percent: bool = False  # a share that forms and addresses show in whole percents
    name: str = ""
    kind: type = str
    optional: bool = False
    default: Any = None

    @property
    def flag(self) -> str:
        return "--" + self.option.replace("_", "-")

    @property
    def one_of(self) -> str:
        """The choices for a sentence: "a, b or c", or with meanings "a: this; b: that"."""
        choices = self.choices()
        if isinstance(choices, dict):
            return "; ".join(f"{name}: {meaning}" for name, meaning in choices.items())
        *others, last = choices
        return f"{', '.join(others)} or {last}" if others else last

    def full_help(self) -> str:
        text = self.help.replace("{choices}", self.one_of) if "{choices}" in self.help else self.help
        return f"{self.symbol}: {text}" if self.symbol else text

    def check(self, value: Any) -> None:
        """
        Raises:
            InvalidInputError: the value is of another kind, or out of range.
        """
        problem = self._problem(value)
        if problem:
            shown = str(value) if isinstance(value, float) else in_short(value)
            said = (self.said or "{name} is {value}").format(name=self.name, value=shown)
            raise InvalidInputError(f"{said}; {problem}")

    def _problem(self, value: Any) -> str | None:
        if value is None and self.optional:
            return None
        accepted, noun = _KINDS.get(self.kind, (self.kind, "text"))
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.kind is not bool):
            return f"it must be {noun}"
        if self.kind is float and not abs(value) < _FINITE:
            return "it must be a finite number"
        if self.choices is not None and value not in (names := tuple(self.choices())):
            return self.wrong or f"choose one of {', '.join(names)}"
        for name, inside in _INSIDE.items():
            bound = getattr(self, name)
            if bound is not None and not inside(value, bound):
                left_out = ", or left out" if self.optional else ""
                return self.wrong or f"it must be {name.replace('_', ' ')} {bound}{left_out}"
        return None


def setting(default: Any, help: str, **declaration: Any) -> Any:
    """A dataclass field with its declaration; the keywords are those of :class:`Field`. Without a default: ``...``."""
    given = {} if default is ... else {"default": default}
    return dataclasses.field(**given, metadata={_KEY: Field(help, **declaration)})


def like(cls: type, name: str, **changes: Any) -> Any:
    """The field of another dataclass again, with its default and its declaration but for ``changes``."""
    field = replace(declared(cls)[name], **changes)
    return dataclasses.field(default=field.default, metadata={_KEY: field})


@functools.cache
def declared(cls: type) -> Mapping[str, Field]:
    """The declared fields of a dataclass by name, in its order."""
    hints = get_type_hints(cls)
    fields = {}
    for field in dataclasses.fields(cls):
        if _KEY in field.metadata:
            kinds = get_args(hints[field.name]) if isinstance(hints[field.name], UnionType) else (hints[field.name],)
            literal = get_origin(kinds[0]) is Literal
            own = field.metadata[_KEY]
            fields[field.name] = replace(
                own,
                name=field.name,
                option=own.option or field.name,
                kind=str if literal else kinds[0],
                choices=functools.partial(get_args, kinds[0]) if literal else own.choices,
                optional=type(None) in kinds,
                default=None if field.default is dataclasses.MISSING else field.default,
            )
    return fields


def check(settings: Any) -> None:
    """Check every declared field of a dataclass; for its ``__post_init__``.

    Raises:
        InvalidInputError: a value of another kind or out of range, by the field's name.
    """
    for name, field in declared(type(settings)).items():
        field.check(getattr(settings, name))
