"""What a run can be made of on this machine: datasets and models that are here, and how to get those that are not.

No torch and no Streamlit in here. What a choice really leads to is decided by the ``zorba train`` process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.data.task import TASKS, MadeRows, Task
from zorba_core.errors import InvalidInputError
from zorba_core.runs.models import BUNDLED, MODELS_VARIABLE, models_folder
from zorba_core.vram import ModelSpec, model_spec


def datasets() -> list[Task]:
    """Every task, those that need no data first. ``load.missing(task)`` says how to get rows that are not here."""
    return sorted(TASKS.values(), key=lambda task: not isinstance(task.rows, MadeRows))


@dataclass(frozen=True)
class Model:
    """A model folder of this machine. ``source`` is what ``--model`` takes."""

    source: str
    spec: ModelSpec

    @property
    def label(self) -> str:
        return f"{Path(self.source).name} · {self.spec.num_blocks} blocks"


def local_models() -> tuple[list[Model], list[str]]:
    """Models of the models folder, the bundled ones first, and one line for each folder that is none."""
    models, problems = [], []
    folder = models_folder()
    try:
        names = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return [], [f"there is no models folder {folder}; set {MODELS_VARIABLE}, or make the model: zorba make-base"]
    bundled = list(BUNDLED)
    for name in sorted(names, key=lambda name: (bundled.index(name) if name in bundled else len(bundled), name))[:50]:
        try:
            models.append(Model(name if name in BUNDLED else str(folder / name), model_spec(folder / name)))
        except (InvalidInputError, OSError) as error:
            problems.append(str(error))
    return models, problems


def model_at(path: str) -> Model:
    """The model of a folder that someone typed.

    Raises:
        InvalidInputError, MissingDataError: no folder, or not one of a model whose size can be counted.
    """
    folder = Path(os.path.expanduser(path.strip()))
    if not folder.is_absolute():
        folder = Path.cwd() / folder
    if not folder.is_dir():
        raise InvalidInputError(
            f"{path.strip()!r} is no folder on this machine; give one that save_pretrained wrote "
            "(config.json, model.safetensors, tokenizer.json)"
        )
    return Model(str(folder), model_spec(folder))


def command_options(chosen: dict[str, Any]) -> dict[str, Any]:
    """Options of ``zorba train`` for a choice, without those that are its defaults."""
    return {name: value for name, value in chosen.items() if value not in (None, "") and value is not False}
