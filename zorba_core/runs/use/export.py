"""A run's model as a Hugging Face folder with a card: what anybody can load who has never heard of this suite."""

from __future__ import annotations

import os
from pathlib import Path

from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_folder, check_folder
from zorba_core.runs.folder import Run
from zorba_core.runs.model_folder import save_adapters, save_model
from zorba_core.runs.models import without_bar
from zorba_core.runs.use.model_card import base_of, model_card
from zorba_core.runs.use.tuned_model import TunedModel, open_tuned

CARD = "README.md"


def export_run(
    run: str | os.PathLike[str] | Run | TunedModel,
    to: str | os.PathLike[str],
    *,
    model: str | None = None,
    adapter: bool = False,
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
    check_folder(to)
    if isinstance(run, TunedModel):
        tuned = open_tuned(run.run, model=run.base_source, adapters=True) if adapter else run
    else:
        tuned = open_tuned(run, model=model, adapters=adapter)
    card = model_card(tuned, to.absolute().name, adapter=adapter)
    with tuned.in_use(), without_bar(), atomic_folder(to) as folder:
        if adapter:
            save_adapters(tuned.network, folder, base_of(tuned.run))
        else:
            save_model(tuned.network, folder)
        tuned.tokenizer.save_pretrained(folder)
        (folder / CARD).write_text(card, encoding="utf-8")
    return to
