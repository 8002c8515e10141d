"""``Run``, with which users resume, predict, evaluate and export; and the runs of a folder. Reading needs no torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pandas as pd

from zorba_core.errors import ZorbaError, one_line
from zorba_core.runs.folder import DEFAULT_FOLDER, RunFolder, path_of
from zorba_core.runs.log import CONFIG

if TYPE_CHECKING:
    from zorba_core.data.own_rows import Texts
    from zorba_core.data.task import Table
    from zorba_core.runs.evaluate import EvaluationReport


class Run(RunFolder):
    """One run: its config, its rounds and summary, and methods that use its model."""

    def resume(self, **options: Any) -> Self:
        """Continue an interrupted run and return it: :func:`zorba_core.runs.resume.resume`."""
        from zorba_core.runs.resume import resume

        return self.read(resume(self, **options))

    def predict(self, texts: Texts, *, base: bool = False) -> pd.DataFrame:
        """The texts with the columns ``prediction`` and ``probability`` of the fine-tuned model.

        Args:
            texts: a text or several; for a task with several text columns, mappings; or a table with these columns.
            base: add ``base_prediction`` and ``base_probability`` of the base model.

        Raises:
            InvalidInputError, MissingDataError: as :func:`zorba_core.runs.predict.predict`.
        """
        from zorba_core.runs.predict import predict

        return predict(self, texts, base=base).table()

    def evaluate(
        self, data: Table | None = None, *, label: str | None = None, client: str | None = None
    ) -> EvaluationReport:
        """Evaluate the fine-tuned model and the base model on labelled rows.

        Args:
            data: a file or a table with the columns of the run's rows; default: the run's evaluation rows.
            label, client: the columns of labels and of clients, if they have other names.

        Raises:
            InvalidInputError, MissingDataError: as :func:`zorba_core.runs.evaluate.evaluate_run`.
        """
        from zorba_core.runs.evaluate import evaluate_run

        return evaluate_run(self, data, label=label, client=client)

    def export(self, to: str | os.PathLike[str]) -> Path:
        """Write the fine-tuned model in Hugging Face format, with tokenizer and model card, to a new folder.

        Raises:
            InvalidInputError, MissingDataError: as :func:`zorba_core.runs.export.export_run`.
        """
        from zorba_core.runs.export import export_run

        return export_run(self, to)


def read_run(run: str | os.PathLike[str] | RunFolder) -> Run:
    """The run of this folder, or of this name in the default folder.

    Raises:
        MissingDataError, InvalidInputError: as :func:`zorba_core.runs.folder.read_folder`.
    """
    if isinstance(run, Run):
        return run
    return Run.read(run.path if isinstance(run, RunFolder) else path_of(run))


class RunListing(NamedTuple):
    """The runs of a folder, newest first, and one line for each folder that cannot be read."""

    runs: tuple[Run, ...]
    problems: tuple[str, ...]


def list_runs(folder: str | os.PathLike[str] = DEFAULT_FOLDER) -> RunListing:
    """All runs in ``folder``; none if it does not exist. Hidden entries and plain files are skipped. A log is read
    when its run's rounds are used."""
    runs: list[tuple[float, Run]] = []
    problems: list[str] = []
    folder = Path(folder)
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(".") or not path.is_dir():
            continue
        try:
            run = Run.listed(path)
            runs.append(((path / CONFIG).stat().st_mtime, run))
        except (ZorbaError, OSError) as error:
            problems.append(one_line(error))
    runs.sort(key=lambda dated: dated[0], reverse=True)
    return RunListing(tuple(run for _, run in runs), tuple(problems))
