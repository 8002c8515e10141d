"""Options of commands from the fields of a :class:`~zorba_core.checked.Checked` class, and the output.

A command's parameter is a whole object; its default names the class::

    def train(settings: Settings = options_of(Settings), as_json: bool = JSON_OPTION) -> None: ...

:func:`add_command` gives the command an option for each field, and makes the object from their values.
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
RUN = typer.Argument(..., help="The run's folder, or its name in the runs folder.")
BASE_MODEL = typer.Option(None, "--model", help="Folder of the base model now; default: as in the run's config.")


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
        names: only these fields; the others have the defaults of ``cls``.
        without: all fields but these.
        make: called with the fields by name instead of ``cls``; with ``dict`` the command gets a dictionary.
        defaults, help: by field, where this command differs from ``cls``. The default None makes the option optional.
        text: fields whose option takes any text, such as a number or the word auto.
        panel: the panel of the options in the help; ``elsewhere`` has the panel of single fields.
    """
    fields = {name: cls.model_fields[name]._copy() for name in names or cls.model_fields if name not in without}
    for name, default in (defaults or {}).items():
        fields[name].default = default
    for name, description in (help or {}).items():
        fields[name].description = description
    panel_of = {**dict.fromkeys(fields, panel), **(elsewhere or {})}
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
            except InvalidInputError as error:  # name the option instead of the field
                name, message, rest = str(error).partition(" is ")
                raise InvalidInputError(f"{_flag(name)}{message}{rest}") if name in given else error from None
        function(**values, **objects)

    class Command(TyperCommand):
        def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            fields = {name: field for group in groups.values() for name, field in group.fields.items()}
            for option in self.params:  # not earlier: choices come from registries, which load packages
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
    """Print ``result`` as JSON, or ``lines`` as text."""
    typer.echo(to_json(result) if as_json else "\n".join(lines))


def note(line: str) -> None:
    """Print a line on stderr."""
    typer.echo(line, err=True)


def hide_loading_bars() -> None:
    """Keep transformers' progress bars off stderr."""
    from transformers.utils import logging

    logging.disable_progress_bar()
