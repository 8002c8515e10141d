"""What commands share: options made from the fields of settings (:mod:`zorba_core.checked`), and the output.

A command takes settings as whole objects and says which model they are of::

    def train(settings: Settings = options_of(Settings), as_json: bool = JSON_OPTION) -> None: ...

:func:`add_command` gives the command an option for each field and makes the object from what was given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import click
import typer
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from zorba_core.checked import Checked, help_of, kind_of
from zorba_core.errors import InvalidInputError
from zorba_core.files import to_json

JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object on stdout and nothing else.")
RUN = typer.Argument(..., help="The run's folder, or its name in artifacts/runs.")
BASE_MODEL = typer.Option(None, "--model", help="Where the base model lies now; default: where the run's config says.")


@dataclass(frozen=True)
class _Options:
    fields: Mapping[str, FieldInfo]
    make: Callable[..., Any]
    panel_of: Mapping[str, str | None]
    text: Collection[str]


def options_of(
    cls: type[Checked],
    *names: str,
    without: Collection[str] = (),
    make: Callable[..., Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    help: Mapping[str, str] | None = None,
    panel: str | None = None,
    elsewhere: Mapping[str, str] | None = None,
    text: Collection[str] = (),
) -> Any:
    """The options of a command's parameter, one for each field of ``cls``.

    Args:
        names: only these fields; the object has its own defaults for the others.
        make: makes what the command gets from the fields by name, instead of ``cls``; ``dict`` leaves them as they are.
        defaults, help: by field, where this command has others. With the default None the option may be left out.
        text: fields whose option takes any text, such as a number or the word auto.
        panel: the part of the help in which the options stand, but for the fields that ``elsewhere`` names with theirs.
    """
    fields = {name: cls.model_fields[name]._copy() for name in names or cls.model_fields if name not in without}
    for name, default in (defaults or {}).items():
        fields[name].default = default
    for name, description in (help or {}).items():
        fields[name].description = description
    panel_of = dict.fromkeys(fields, panel) | (elsewhere or {})
    return _Options(fields, make or cls, panel_of, text)


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Register ``function`` as a command, with options for the parameters that :func:`options_of` describes."""
    parameters, groups, hints = [], {}, get_type_hints(function)
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.default, _Options):
            groups[parameter.name] = parameter.default
            panel_of = parameter.default.panel_of
            text = parameter.default.text
            parameters += [
                _parameter(name, field, panel_of[name], name in text)
                for name, field in parameter.default.fields.items()
            ]
        else:
            annotation, kind = hints[parameter.name], inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=annotation, kind=kind))

    def run(**values: Any) -> None:
        objects = {}
        for parameter, group in groups.items():
            given = {name: values.pop(name) for name in group.fields}
            try:
                objects[parameter] = group.make(**given)
            except InvalidInputError as error:  # people know the field as an option
                name, message, rest = str(error).partition(" is ")
                raise InvalidInputError(f"{_flag(name)}{message}{rest}") if name in given else error from None
        function(**values, **objects)

    class Command(TyperCommand):
        def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            fields = {name: field for group in groups.values() for name, field in group.fields.items()}
            for option in self.params:  # only now: the names may come from registries, which load packages
                if option.name in fields:
                    option.help = help_of(fields[option.name])
            super().format_help(ctx, formatter)

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)
    app.command(name, cls=Command)(run)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parameter(name: str, field: FieldInfo, panel: str | None, text: bool) -> inspect.Parameter:
    kind, optional = (str, True) if text else kind_of(field)
    default = typer.Option(field.default, _flag(name), help=field.description, rich_help_panel=panel)
    annotation = kind | None if optional or field.default is None else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def emit(result: dict[str, Any], as_json: bool, lines: Iterable[str]) -> None:
    """Print ``result`` as JSON, or ``lines`` for people."""
    typer.echo(to_json(result) if as_json else "\n".join(lines))


def note(line: str) -> None:
    """A line for people, on stderr."""
    typer.echo(line, err=True)


def hide_loading_bars() -> None:
    """stderr shows what the command does, not how a model is loaded."""
    from transformers.utils import logging

    logging.disable_progress_bar()
