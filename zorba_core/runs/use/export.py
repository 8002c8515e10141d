"""A run's model as a Hugging Face folder with a card: what anybody can load who has never heard of this suite."""

from __future__ import annotations

import os
from pathlib import Path

from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_folder, check_model_folder
from zorba_core.runs.folder import Run
from zorba_core.runs.model_source import without_bar
from zorba_core.runs.use.model_card import model_card
from zorba_core.runs.use.tuned_model import TunedModel, open_tuned

CARD = "README.md"


def export_run(
    run: str | os.PathLike[str] | Run | TunedModel, to: str | os.PathLike[str], *, model: str | None = None
) -> Path:
    """Write the run's fine-tuned model, its tokenizer and a model card to the new folder ``to``, whole or not at all.

    Args:
        model: where the base model lies now, if it is not where the run's config says.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.use.open_tuned`; the folder exists, or cannot be
            written.
    """
    to = Path(to)
    if os.path.lexists(to):
        raise InvalidInputError(f"{to} exists already; give a folder that does not")
    check_model_folder(to)
    tuned = run if isinstance(run, TunedModel) else open_tuned(run, model=model)
    card = model_card(tuned, to.absolute().name)
    with tuned.in_use(), without_bar(), atomic_folder(to) as folder:
        tuned.network.save(folder)
        tuned.tokenizer.save_pretrained(folder)
        (folder / CARD).write_text(card, encoding="utf-8")
    return to
