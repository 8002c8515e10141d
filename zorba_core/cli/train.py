"""``zorba train``: federated fine-tuning, from a fleet to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field, field_validator

from zorba_core.checked import Checked, OneOf
from zorba_core.cli.allocation_choice import AllocationChoice
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.data.baselines import of_baselines
from zorba_core.data.divide import DIVISIONS, named_clients
from zorba_core.data.own_task import listed, task_for
from zorba_core.data.task import METRIC_TITLES, TASKS, Overrides, Task, get_task
from zorba_core.engine.parts import METHODS, method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs import DEFAULT_FOLDER, Run
from zorba_core.runs.folder import check_name
from zorba_core.vram import GIB

if TYPE_CHECKING:
    from zorba_core.runs.complete import Callback


class TaskOptions(Checked):
    """Task and model of a run in one process."""

    data: str | None = None
    """Your own rows: CSV, TSV, JSON, Parquet or Excel; clients/*.csv, one file a client; or a task's TOML."""
    dataset: Annotated[str | None, OneOf(lambda: tuple(TASKS))] = "toy-reviews"
    """Or a built-in task: {choices}; toy-reviews needs no data."""
    text: str | None = None
    """Column of the text, or several with commas; default: inferred."""
    label: str | None = None
    """Column of the label; default: inferred."""
    answer: str | None = None
    """Column of the text to generate, instead of a label."""
    prompt: str | None = None
    """What the model reads, e.g. "{text} Topic:"; default: inferred."""
    label_words: str | None = None
    """Words that the model answers with, comma separated, one for each label; default: the task's."""
    test: str | None = None
    """File of the rows to evaluate on; default: a fifth of the rows, by hash."""
    client: str | None = None
    """Column that says whose row it is: each value is one client."""
    division: Annotated[str | None, OneOf(lambda: DIVISIONS)] = None
    """Of rows among clients. {choices}; default natural where rows name clients."""
    alpha: float = Field(1.0, allow_inf_nan=True)
    """Of the Dirichlet division of rows; smaller is more uneven."""
    model: str | None = None
    """opt-mini, smollm2-135m, a Hugging Face folder, or a hub id; default: for --data the second where it is here."""

    @field_validator("text", "label", "answer", "prompt", "label_words", "client")
    @classmethod
    def _check_unicode(cls, value: str | None) -> str | None:
        if value is not None and value.encode("utf-8", "replace").decode() != value:
            raise ValueError("it must be Unicode text")
        return value

    @property
    def words(self) -> list[str] | None:
        return None if self.label_words is None else _listed(self.label_words)

    def with_model(self) -> TaskOptions:
        """The same with a base model where none is named."""
        from zorba_core.runs.models import default_model

        if self.model is not None:
            return self
        return self.replace(model=default_model(self.data is not None, lambda line: typer.echo(line, err=True)))

    def task(self) -> Task:
        """The task to train on; what was inferred of the user's own rows goes to stderr.

        Raises:
            InvalidInputError, MissingDataError: unknown, missing or unusable, or options that contradict each other.
        """
        from zorba_core.runs.models import load_tokenizer

        overrides = Overrides(
            tuple(_listed(self.text or "")),
            self.label,
            self.answer,
            self.prompt,
            tuple(_listed(self.label_words or "")),
            self.client,
            self.test,
        )
        if self.data is None:
            of_data = ("text", "label", "answer", "prompt", "client", "test")
            given = [name for name in of_data if getattr(self, name) is not None]
            if given:
                raise InvalidInputError(f"--{given[0]} is for rows of your own; give them with --data FILE")
            return get_task(self.dataset)
        if self.dataset not in (None, TaskOptions.model_fields["dataset"].default):
            raise InvalidInputError("give --dataset or --data, not both")
        return task_for(
            self.data,
            overrides,
            tokenizer=partial(load_tokenizer, self.model),
            notice=lambda line: typer.echo(line, err=True),
        )


def _listed(text: str) -> list[str]:
    return listed(text) if text.strip() else []


class FolderOptions(Checked):
    """What a run writes, and whether it may start."""

    runs_folder: Path = DEFAULT_FOLDER
    """Where the run's folder is made."""
    name: str | None = None
    """First part of its name; default <dataset>-<model>."""
    threads: int = Field(1, ge=1, le=1024)
    """CPU threads. More are slower for a small model."""
    force: bool = False
    """Train also with settings that are found unable to learn."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str | None) -> str | None:
        return None if name is None else check_name(name)


# Settings.suited, or the rows, decide where these are left out.
_SUITED = dict.fromkeys(("lr", "rounds", "schedule", "direction", "directions", "precision", "seq_len"))
_FIRST, _MODEL, _RUN = "What most people need", "Model", "Run"
_ELSEWHERE = {
    **dict.fromkeys(("data", "label", "model", "clients", "rounds", "lr"), _FIRST),
    **dict.fromkeys(("seq_len", "lora_rank", "precision"), _MODEL),
    **dict.fromkeys(("device", "seed", "eval_every", "eval_rows", "target"), _RUN),
}


def train(
    task: TaskOptions = options_of(TaskOptions, panel="Data", elsewhere=_ELSEWHERE),
    choice: AllocationChoice = options_of(AllocationChoice, panel="Allocation", elsewhere=_ELSEWHERE),
    settings: dict[str, Any] = options_of(
        Settings,
        panel="Training",
        elsewhere=_ELSEWHERE,
        without=("num_seeds", "inactive", "participation"),
        make=dict,
        defaults=_SUITED,
        text=("lr",),
        help={
            "lr": "Learning rate, or auto: found by some ten trial rounds; default: auto.",
            "rounds": "Rounds, T; default 150, and 40 of a large model.",
            "seq_len": "Longest prompt in tokens, L; default 64, and for --data what holds 99 of 100 rows, at most 96.",
        },
    ),
    folder: FolderOptions = options_of(FolderOptions, panel="Run", elsewhere=_ELSEWHERE),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fine-tune a language model across clients that each activate some of its blocks, by forward passes alone; or by
    one of the methods that the paper compares with.

    Ctrl-C ends the run after the round at hand and exits with status 1; zorba resume continues it.
    """
    from zorba_core.runs.load import read_spec, suited_to_rows
    from zorba_core.runs.train import fine_tune

    task = task.with_model()
    spec = read_spec(task.model)
    find_lr, asked_length = settings["lr"] in (None, "auto"), settings["seq_len"]
    settings = Settings.suited(spec.num_parameters, **settings | ({"lr": None} if find_lr else {}))
    chosen_task = task.task()  # before anything slow
    if not asked_length and chosen_task.is_own:
        settings = suited_to_rows(settings, chosen_task, task.model)
    chosen, origin = choice.allocation_for(spec, settings, named_clients(chosen_task, task.division))
    run = supervised(
        settings.rounds,
        lambda callbacks: fine_tune(
            chosen if method_facts(settings.method).allocates else None,
            num_clients=chosen.num_clients,
            dataset=chosen_task,
            model=task.model,
            settings=settings,
            find_lr=find_lr,
            alpha=task.alpha,
            division=task.division,
            label_words=task.words if task.data is None else None,
            callbacks=callbacks,
            origin=origin,
            notice=lambda line: typer.echo(line, err=True),
            **dict(folder),
        ),
        METRIC_TITLES[chosen_task.counted],
    )
    emit({"run": str(run.path), **run.summary}, as_json, summary_lines(run))


def supervised(rounds: int, work: Callable[[Sequence[Callback]], Run], metric: str) -> Run:
    """Do ``work`` with progress on stderr and Ctrl-C keeping what was done.

    ``metric``: what the run counts as right.
    """
    from transformers.utils import logging as transformers_logging

    from zorba_core.runs.terminal import Interrupt, Progress

    transformers_logging.disable_progress_bar()  # stderr shows the run's progress, not the loading's
    progress, interrupt = Progress(rounds, metric=metric), Interrupt()
    try:
        with interrupt.listening():
            return work([progress, interrupt])
    except KeyboardInterrupt:
        folder = interrupt.folder
        state = "nothing was written" if folder is None else f"resume with: zorba resume {folder}"
        raise RunError(f"stopped at once; {state}") from None
    finally:
        progress.close()


def summary_lines(run: Run) -> list[str]:
    summary, config, data = run.summary, run.config, run.environment.get("data", {})
    sent = summary["communication"]
    by_client = summary["reports"]["refused_by_client"]
    backward = f" and {summary['backward_passes']} backward passes" if summary["backward_passes"] else " passes"
    note = f" ({data['note']})" if data.get("note") else ""
    metric = METRIC_TITLES.get(str(data.get("metric")), METRIC_TITLES["accuracy"])
    rows = [
        (
            f"{metric}, {data.get('evaluation_split', '-')} ({data.get('evaluation_rows', '-')} rows)",
            f"{summary['initial_accuracy']:.3f} before, {summary['final_accuracy']:.3f} after, "
            f"best {summary['best_accuracy']:.3f} in round {summary['best_round']}",
        ),
        (
            "allocation",
            f"Lambda {summary['lambda']:.3f}, V {summary['mean_inverse_popularity']:.3f}, "
            f"effective clients {summary['effective_clients']:.1f}",
        ),
        ("VRAM by the paper's model", f"{summary['vram_gib']['total']:.3f} GiB over all clients"),
        (
            "memory of the largest client",
            f"{summary['memory']['psi_bytes'] / GIB:.3f} GiB by the paper's model",
        ),
        ("computed", f"{summary['forward_passes']} forward{backward} of one client's batch{_by_clients(summary)}"),
        (
            "sent, numbers needed",
            f"{sent['up']['needed']:,} up, {sent['down']['needed']:,} down ({sent['form']}); "
            f"{(sent['up']['wire_bytes'] + sent['down']['wire_bytes']) / 1e6:,.3f} MB",
        ),
        ("run", str(run.path)),
    ]
    if summary["target"] is not None:
        reached = summary["rounds_to_target"]
        what = "not reached" if reached is None else f"reached in round {reached}"
        rows.insert(1, (f"target {summary['target']:.2f}", what))
    if by_client:
        rows.insert(3, ("refused for a round", f"{sum(by_client.values())} reports of {len(by_client)} clients"))
    width = max(33, *(len(what) + 1 for what, _ in rows))
    return [
        f"{METHODS[summary['method']].title} on {config['dataset']}{note}, {config['model']}, "
        f"{config['num_clients']} clients, "
        f"{summary['total_blocks']} of {config['num_clients'] * config['num_blocks']} blocks, "
        f"{summary['rounds_done']} rounds in {summary['seconds']:.0f} s",
        *(f"  {what:<{width}}{value}" for what, value in rows),
        *_compared(summary["final_accuracy"], data.get("baselines")),
    ]


def _compared(accuracy: float, scores: dict[str, float] | None) -> list[str]:
    """The sentence that sets the end of a run on rows of one's own beside simple classifiers."""
    return [f"{accuracy:.3f} of the same rows are right after training; {of_baselines(scores)}"] if scores else []


def _by_clients(summary: dict[str, Any]) -> str:
    """What real clients would compute in place of a simulation's backward passes."""
    if not summary["client_forward_passes"] or not summary["backward_passes"]:
        return ""
    return f"; real clients: {summary['client_forward_passes']:,} forward passes and no backward pass"
