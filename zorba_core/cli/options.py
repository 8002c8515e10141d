"""Options of the commands, made from declared fields (:mod:`zorba_core.fields`).

A command takes settings as whole objects and says which dataclass they are of::

    def train(settings: TrainSettings = options_of(TrainSettings), as_json: bool = JSON_OPTION) -> None: ...

:func:`add_command` gives the command an option for each declared field and makes the object from what was given.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import click
import typer
from typer.core import TyperCommand

from zorba_core.errors import in_short
from zorba_core.fields import Field, declared


@dataclass(frozen=True)
class _Options:
    fields: tuple[Field, ...]
    make: Callable[..., Any]


def options_of(
    cls: type,
    *names: str,
    without: Collection[str] = (),
    make: Callable[..., Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    help: Mapping[str, str] | None = None,
) -> Any:
    """The options of a command's parameter, one for each declared field of ``cls``.

    Args:
        names: only these fields; the object has its own defaults for the others.
        make: makes what the command gets from the fields by name, instead of ``cls``; ``dict`` leaves them as they are.
        defaults, help: by field, where this command has others. With the default None the option may be left out.
    """
    defaults, help, fields = defaults or {}, help or {}, []
    for name in names or [name for name in declared(cls) if name not in without]:
        field = declared(cls)[name]
        default = defaults.get(name, field.default)
        optional = field.optional or default is None
        fields.append(replace(field, default=default, optional=optional, help=help.get(name, field.help)))
    return _Options(tuple(fields), make or cls)


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Register ``function`` as a command, with options for the parameters that :func:`options_of` describes."""
    parameters, groups, hints = [], {}, get_type_hints(function)
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.default, _Options):
            groups[parameter.name] = parameter.default
            parameters += [_parameter(field) for field in parameter.default.fields]
        else:
            annotation, kind = hints[parameter.name], inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=annotation, kind=kind))

    def run(**values: Any) -> None:
        for field in (field for group in groups.values() for field in group.fields):
            if field.choices is None:  # of these who looks a name up says more
                field.check(values[field.option])
        made = {
            name: group.make(**{field.name: values.pop(field.option) for field in group.fields})
            for name, group in groups.items()
        }
        function(**values, **made)

    class Command(_Command):
        fields = tuple(field for group in groups.values() for field in group.fields)

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)
    app.command(name, cls=Command)(run)


class _PlainNumber(click.ParamType):
    """Digits as people write numbers: Python also takes 1_000, digits of any script, and spaces."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and ("_" in value or not value.isascii() or value != value.strip()):
            self.fail(f"{in_short(value)} is not a number; write it in the digits 0 to 9 alone.", param, ctx)
        return super().convert(value, param, ctx)


class _Whole(_PlainNumber, click.types.IntParamType):
    pass


class _Number(_PlainNumber, click.types.FloatParamType):
    pass


_PLAIN = {click.types.IntParamType: _Whole, click.types.FloatParamType: _Number}


class _Command(TyperCommand):
    fields: tuple[Field, ...]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for parameter in self.params:
            if type(parameter.type) in _PLAIN:
                parameter.type = _PLAIN[type(parameter.type)]()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        by_name = {field.option: field for field in self.fields}
        for parameter in self.params:  # only now: the names may come from registries, which load packages
            if parameter.name in by_name:
                parameter.help = by_name[parameter.name].full_help()
        super().format_help(ctx, formatter)


def _parameter(field: Field) -> inspect.Parameter:
    flags = [field.flag] if field.kind is not bool or not field.default else []  # a switch that is on has an opposite
    return inspect.Parameter(
        field.option,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(field.default, *flags, help=field.help),
        annotation=field.kind | None if field.optional else field.kind,
    )


def option_words(command: str, values: Mapping[str, Any]) -> list[str]:
    """The options of ``zorba COMMAND`` for values by the names of fields or options. True is a switch; None and False
    are left out.

    Raises:
        KeyError: the command has no such option.
    """
    flags, words = flags_of(command), []
    for name, value in values.items():
        flag = flags[name]
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def flags_of(command: str) -> Mapping[str, str]:
    """The options of ``zorba COMMAND``, by the names of their fields and by their own."""
    return _flags()[command]


@functools.cache
def _flags() -> Mapping[str, Mapping[str, str]]:
    from zorba_core.cli import build_app

    flags = {}
    for name, command in typer.main.get_command(build_app()).commands.items():
        fields = {field.name: field.flag for field in getattr(command, "fields", ())}
        flags[name] = {**fields, **{option.name: option.opts[0] for option in command.params}}
    return flags
