"""Settings with checks: pydantic models whose errors are one line.

A model declares each field once, with its bounds and a docstring. The command's options
(:mod:`zorba_core.cli.options`) and the dashboard's controls are made from the fields::

    class Workload(Checked, frozen=True):
        batch_size: int = Field(default=8, ge=1)
        \"""Sequences a batch, B.\"""
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Self, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from zorba_core.errors import InvalidInputError, in_short

_BOUNDS = {
    "greater_than_equal": "it must be at least {ge}",
    "greater_than": "it must be above {gt}",
    "less_than_equal": "it must be at most {le}",
    "less_than": "it must be below {lt}",
}
_KINDS = {
    "int": "it must be a whole number",
    "float": "it must be a number",
    "finite": "it must be a finite number",
    "bool": "it must be true or false",
    "string": "it must be text",
    "missing": "it must be given",
    "extra": "there is no such setting",
}


class Checked(BaseModel, frozen=True):
    """A frozen model.

    Raises:
        InvalidInputError: a value is wrong; names the field, the value and what is allowed.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidInputError(_sentence(error.errors()[0])) from None

    def replace(self, **changes: Any) -> Self:
        """A copy with some values changed, checked again."""
        return type(self)(**{**dict(self), **changes})


def _sentence(problem: ErrorDetails) -> str:
    """One line from pydantic's description of a wrong value."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in _BOUNDS:
        bounds = {name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in context.items()}
        remedy = _BOUNDS[kind].format(**bounds)
    elif kind == "literal_error":
        remedy = f"choose {context['expected'].replace(chr(39), '')}"
    elif kind == "value_error":
        remedy = str(context["error"])
    else:
        remedy = _KINDS.get(kind.partition("_")[0], problem["msg"])
    name = str(problem["loc"][0]) if problem["loc"] else ""  # the rest names the alternatives of a union
    if kind == "missing":
        return f"{name} is missing; {remedy}"
    value = problem["input"]
    return f"{name} is {value if isinstance(value, float) else in_short(value)}; {remedy}"


@dataclass(frozen=True)
class OneOf:
    """Metadata of a text field: its allowed names. ``names`` is called at each check, since a registry can grow.

    ``{choices}`` in the field's docstring is replaced by the names; if ``names()`` is a mapping, by a paragraph for
    each name with its meaning.
    """

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: str | None) -> str | None:
        if value is not None and value not in (names := tuple(self.names())):
            raise ValueError(f"choose one of {', '.join(names)}")
        return value


def kind_of(field: FieldInfo) -> tuple[type, bool]:
    """The type of a field's values (``str`` for a ``Literal``, and for a number or a word), and whether None is
    allowed."""
    kinds = get_args(field.annotation) if get_origin(field.annotation) in (Union, UnionType) else (field.annotation,)
    kind = str if any(get_origin(each) is Literal for each in kinds) else kinds[0]
    return cast(type, kind), NoneType in kinds


def choices_of(field: FieldInfo) -> Mapping[str, str]:
    """The allowed names of a field, with their meanings if it has any; empty if any value is allowed."""
    for part in field.metadata:
        if isinstance(part, OneOf):
            names = part.names()
            return names if isinstance(names, Mapping) else dict.fromkeys(names, "")
    kinds = get_args(field.annotation) if get_origin(field.annotation) in (Union, UnionType) else (field.annotation,)
    literals = [kind for kind in kinds if get_origin(kind) is Literal]
    only = literals and all(kind is NoneType or kind in literals for kind in kinds)
    return dict.fromkeys(get_args(literals[0]), "") if only else {}


def help_of(field: FieldInfo) -> str:
    """The field's docstring, with ``{choices}`` replaced."""
    text = field.description or ""
    if "{choices}" not in text:
        return text
    choices = choices_of(field)
    if any(choices.values()):
        return text.replace("{choices}", "\n\n".join(f"{name}: {meaning}" for name, meaning in choices.items()))
    *others, last = choices
    return text.replace("{choices}", f"{', '.join(others)} or {last}" if others else last)
