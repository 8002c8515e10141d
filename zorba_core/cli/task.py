"""``zorba task``: what a task's rows are to a model, before anything is trained."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from zorba_core.cli.allocation_choice import AllocationChoice
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.train import TaskOptions
from zorba_core.data.baselines import of_baselines
from zorba_core.data.divide import named_clients
from zorba_core.data.task import TASKS
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError


def task(
    data: str = typer.Argument(..., help="Rows, a task's TOML file, or the name of a built-in task."),
    task_options: dict[str, Any] = options_of(TaskOptions, without=("dataset", "data", "alpha", "division"), make=dict),
    choice: AllocationChoice = options_of(AllocationChoice, "clients"),
    seq_len: int | None = typer.Option(None, help="Longest prompt in tokens; default: as in zorba train."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show columns, labels, an example prompt with its tokens, lengths against --seq-len, and what to change; what a
    majority vote, naive Bayes and the model before training get on the test rows; and how long training will take."""
    from zorba_core.data.describe import describe_task
    from zorba_core.runs.expect import expect
    from zorba_core.runs.load import read_spec, suited_to_rows
    from zorba_core.runs.models import load_tokenizer

    named = {"dataset": data} if data in TASKS else {"data": data}
    options = TaskOptions(**named, **task_options).with_model()
    chosen = options.task()
    spec = read_spec(options.model)
    suited = Settings.suited(spec.num_parameters, seq_len=seq_len)
    if seq_len is None and chosen.is_own:
        suited = suited_to_rows(suited, chosen, options.model)
    facts = describe_task(chosen, load_tokenizer(options.model), suited.seq_len)
    allocation, _ = choice.allocation_for(spec, suited, named_clients(chosen, None))
    try:
        expected = expect(chosen, options.model, suited, allocation)
    except InvalidInputError as error:
        facts["model"], last = None, f"{options.model} cannot be trained on it: {error}"
    else:
        facts["model"] = {"name": options.model, "rounds": suited.rounds, **asdict(expected)}
        last = expected.sentence(options.model, suited, allocation.num_clients)
    emit(facts, as_json, [*_lines(facts), last])


def _lines(facts: dict[str, Any]) -> list[str]:
    lengths, example, columns = facts["lengths"], facts["example"], facts["columns"]
    lines = [
        f"task {facts['task']}: {', '.join(f'{count:,} rows ({split})' for split, count in facts['rows'].items())}",
        "columns: " + "; ".join(f"{what} {_joined(names)}" for what, names in columns.items() if names),
        f"prompt: {facts['prompt']!r}",
        f"{example['place']}, {len(example['tokens'])} tokens",
        f"  {example['prompt']!r} -> {example['answer']!r}",
        f"  {' '.join(example['tokens'])}",
    ]
    if facts["labels"]:
        lines.append(f"{'label':<28}{'word':<24}{'tokens':>6}{'train':>9}{'test':>8}")
    lines += [
        f"{label['name'][:27]:<28}{label['word'][:23]:<24}{len(label['tokens']) or '-':>6}{label['train']:>9}"
        f"{label['test']:>8}"
        for label in facts["labels"]
    ]
    lines.append(
        f"tokens of a prompt: median {lengths['median']}, 9 of 10 at most {lengths['p90']}, 99 of 100 at most "
        f"{lengths['p99']}, longest {lengths['longest']}; the prompt's own words {lengths['prompt_itself']}"
    )
    answers = f", {lengths['answers_cut']} answers" if lengths.get("answers_cut") else ""
    lines.append(
        f"seq_len {lengths['seq_len']}: {lengths['prompts_cut']} of {lengths['measured_rows']} rows are cut{answers}"
    )
    if facts["clients"]:
        lines.append("clients: " + ", ".join(f"{name} {count}" for name, count in [*facts["clients"].items()][:20]))
    if scores := facts["baselines"]:
        lines.append(f"accuracy on the test rows {of_baselines(scores)}")
    return lines + ([f"advice: {sentence}" for sentence in facts["advice"]] or ["advice: none, all is well"])


def _joined(names: str | list[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)
