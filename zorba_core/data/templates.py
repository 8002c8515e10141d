"""Templates of prompts for rows whose prompt is not given: a file of text, one template a line.

Which words stand between a text and its label decides as much as training does, and no rule knows them beforehand. So
a run measures the loss of each template on a few rows (:mod:`zorba_core.runs.prompt`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.tables import text_of_file

TEMPLATES = Path(__file__).with_name("templates.txt")
_KNOWN = ("{text}", "{label}", "{Label}")


def read_templates(path: Path = TEMPLATES) -> tuple[str, ...]:
    """The templates of a file, in order, each once; ``\\n`` in a line is a line break.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: a template has no ``{text}`` or another field, or the file has none.
    """
    if not path.is_file():
        raise MissingDataError(f"the file of prompts {str(path)!r} does not exist")
    templates: dict[str, None] = {}
    for number, line in enumerate(text_of_file(path).splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        rest = line
        for field in _KNOWN:
            rest = rest.replace(field, "")
        if "{text}" not in line or "{" in rest or "}" in rest:
            raise InvalidInputError(
                f"{path}, line {number}: {in_short(line)} must have {{text}}, may have {{label}} or {{Label}}, and "
                "no other braces"
            )
        templates[line.replace("\\n", "\n")] = None
    if not templates:
        raise InvalidInputError(f"{path} has no template; write one a line, such as {{text}} Topic:")
    return tuple(templates)


def prompts_of(templates: Sequence[str], texts: str, label: str) -> tuple[str, ...]:
    """The prompts of a task: ``texts`` is the part with its columns, ``label`` the words of the label's column."""
    named = (template.replace("{Label}", label[:1].upper() + label[1:]) for template in templates)
    return tuple(
        template.replace("{label}", label[:1].lower() + label[1:]).replace("{text}", texts) for template in named
    )
