"""``zorba task``: what a task's rows are to a model, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from zorba_core.cli.allocation_choice import DEFAULT_CLIENTS
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.train import TaskOptions
from zorba_core.data.divide import NATURAL
from zorba_core.data.task import TASKS, Task
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError

_DASH = "-"


def check(
    data: str = typer.Argument(..., help="Rows, a task's TOML file, or the name of a built-in task."),
    task_options: dict[str, Any] = options_of(TaskOptions, without=("dataset", "data", "alpha"), make=dict),
    settings: Settings = options_of(Settings, "seq_len", "seed"),
    clients: int | None = typer.Option(None, help="Clients to divide the rows among, for --html."),
    alpha: float = typer.Option(1.0, help="Of the Dirichlet division, for --html."),
    html: Path | None = typer.Option(None, help="Write the picture of labels per client there."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show rendered prompts with their tokens, label balance, lengths against --seq-len, label words that the tokenizer
    splits, and duplicates; and what to change."""
    from zorba_core.data.check import check_task
    from zorba_core.runs.model_source import load_tokenizer, max_positions

    named = {"dataset": data} if data in TASKS else {"data": data}
    options = TaskOptions(**named, **task_options)
    task = options.task()
    report = check_task(
        task,
        load_tokenizer(options.model),
        settings.seq_len,
        max_positions(options.model),
    )
    if html is not None:
        _write_picture(html, task, options, clients, settings.seed, alpha)
        report["html"] = str(html)
    emit(report, as_json, _lines(report))


def _write_picture(html: Path, task: Task, options: TaskOptions, clients: int | None, seed: int, alpha: float) -> None:
    """Labels per client, as the rows would be divided."""
    from zorba_core.data.divide import divide, division_of
    from zorba_core.data.load import clients_of, load_split
    from zorba_core.files import atomic_path
    from zorba_core.plots import labels_figure, labels_per_client

    frame = load_split(task)
    if "label" not in frame:
        raise InvalidInputError(f"task {task.name} has no labels to show per client; leave --html out")
    names = clients_of(frame)
    division = division_of(task, options.division)
    count = clients or (len(names) if division == NATURAL else DEFAULT_CLIENTS)
    held_N = divide(frame, count, alpha, seed, division)
    rows_CN = labels_per_client(frame["label"].to_numpy(), held_N, task.num_classes)
    figure = labels_figure(rows_CN, task.label_names, clients=names if division == NATURAL else ())
    with atomic_path(html) as temporary:
        figure.write_html(temporary, include_plotlyjs=True)


def _lines(report: dict[str, Any]) -> list[str]:
    lengths, rows = report["lengths"], report["rows"]
    lines = [f"task {report['task']}: {', '.join(f'{count:,} rows ({split})' for split, count in rows.items())}"]
    for prompt in report["prompts"]:
        lines += [
            f"{prompt['place']}, {len(prompt['tokens'])} tokens",
            f"  {prompt['prompt']!r} -> {prompt['answer']!r}",
        ]
        lines.append(f"  {' '.join(prompt['tokens'])}")
    if report["labels"]:
        lines.append(f"{'label':<28}{'word':<24}{'tokens':>6}{'train':>9}{'test':>8}")
    for label in report["labels"]:
        tokens = len(label["tokens"]) or _DASH
        lines.append(
            f"{label['name'][:27]:<28}{label['word'][:23]:<24}{tokens:>6}{label['train']:>9}{label['test']:>8}"
        )
    lines.append(
        f"tokens of a prompt: median {lengths['median']}, 9 of 10 at most {lengths['p90']}, 99 of 100 at most "
        f"{lengths['p99']}, longest {lengths['longest']}; the prompt's own words {lengths['prompt_itself']}"
    )
    cut = f"{lengths['prompts_cut']} of {lengths['measured_rows']} rows are cut"
    answers = f", {lengths['answers_cut']} answers" if lengths.get("answers_cut") else ""
    lines.append(f"seq_len {lengths['seq_len']}: {cut}{answers}")
    duplicates = {name.replace("_", " "): count for name, count in report["duplicates"].items() if count}
    lines.append("duplicates: " + (", ".join(f"{count} {name}" for name, count in duplicates.items()) or "none"))
    if report["clients"]:
        lines.append(
            "clients: " + ", ".join(f"{name} {count}" for name, count in sorted(report["clients"].items())[:20])
        )
    lines += [f"advice: {sentence}" for sentence in report["recommendations"]] or ["advice: none, all is well"]
    if "html" in report:
        lines.append(f"picture: {report['html']}")
    return lines
