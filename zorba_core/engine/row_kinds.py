"""The kinds of rows, and how they are stored as named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from torch import Tensor

from zorba_core.engine.choice_rows import ChoiceRows
from zorba_core.engine.rows import Encoded
from zorba_core.engine.text_rows import TextRows

Rows = Encoded | ChoiceRows | TextRows

# By kind, the name in a file of each field.
_NAMES = {
    Encoded: {"token_ids_RL": "ids", "last_R": "last", "label_R": "label"},
    **{kind: {field.name: field.name for field in fields(kind)} for kind in (ChoiceRows, TextRows)},
}


def to_tensors(rows: Rows) -> dict[str, Tensor]:
    """All that ``rows`` hold, by names that tell their kind."""
    return {name: getattr(rows, field) for field, name in _NAMES[type(rows)].items()}


def from_tensors(tensors: Mapping[str, Tensor]) -> Rows | None:
    """The rows that :func:`to_tensors` named so; None where the names are of no kind."""
    for kind, names in _NAMES.items():
        if set(names.values()) == set(tensors):
            return kind(**{field: tensors[name] for field, name in names.items()})
    return None
