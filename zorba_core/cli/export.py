"""``zorba export``: a run's model as a Hugging Face folder with a model card."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.predict import BASE_MODEL, RUN


def export(
    run: str = RUN,
    to: Path = typer.Option(..., help="A new folder for model, tokenizer and model card."),
    model: str | None = BASE_MODEL,
    adapter: bool = typer.Option(False, "--adapter", help="Of a run with --lora-rank: the adapters alone, for PEFT."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Export the fine-tuned model of the run RUN in Hugging Face format, with a model card of measured facts."""
    from zorba_core.runs.export import CARD, export_run
    from zorba_core.runs.folder import finished_folder

    opened = finished_folder(run)
    folder = export_run(opened, to, model=model, adapter=adapter)
    files = sorted(path.name for path in folder.iterdir())
    result = {
        "run": str(opened.path),
        "folder": str(folder),
        "files": files,
        "card": str(folder / CARD),
        "weights_sha256": opened.summary["weights_sha256"],
    }
    emit(result, as_json, [f"{folder}: {', '.join(files)}", f"  {folder / CARD} shows how to use it"])
