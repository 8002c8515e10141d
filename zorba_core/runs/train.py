"""Fine-tune: load, check, divide the rows, train, write the run folder.

A wrong request is refused before the run folder is made.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core.allocation import Allocation, Solution
from zorba_core.data.baselines import baselines
from zorba_core.data.divide import division_of
from zorba_core.data.infer import Data, task_for
from zorba_core.data.load import load
from zorba_core.data.task import Overrides, Task, get_task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import Training, check_fit
from zorba_core.engine.parts import ESTIMATORS, method_facts
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_folder
from zorba_core.logs import shown
from zorba_core.runs.folder import DEFAULT_FOLDER, check_name, plain_name
from zorba_core.runs.load import (
    check_tokens,
    evaluation_frame,
    federated_rows,
    open_network,
    read_spec,
    suited_settings,
    suited_threads,
    use_threads,
    with_base_preference,
)
from zorba_core.runs.log import Log
from zorba_core.runs.models import default_model, load_tokenizer, recorded_model
from zorba_core.runs.preflight import preflight
from zorba_core.runs.prompt import choose_local_prompt
from zorba_core.runs.record import Callback, Start, begin, complete, memory_errors
from zorba_core.runs.run import Run
from zorba_core.runs.terminal import Progress

_log = logging.getLogger(__name__)
DEFAULT_DATASET = "toy-reviews"


def fine_tune(
    allocation: Allocation | Solution | None = None,
    *,
    num_clients: int | None = None,
    dataset: str | Task = DEFAULT_DATASET,
    data: Data | None = None,
    overrides: Overrides | None = None,
    model: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    alpha: float = 1.0,
    division: str | None = None,
    threads: int | None = None,
    runs_folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    name: str | None = None,
    callbacks: Sequence[Callback] = (),
    origin: Mapping[str, Any] | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Run:
    """Fine-tune ``model`` on ``dataset``, or on your own rows in ``data``; return the run as its folder has it.

    Args:
        allocation: A_MN (blocks, clients), or the solution that has it; only for a method that allocates, as zorba.
        num_clients: N, for the other methods: there every client activates every block.
        dataset: a built-in task: ``toy-reviews`` (needs no data), ``sst2``, ``ag-news``, ...; or a :class:`Task`.
        data: your own rows: a file (CSV, TSV, JSON, Parquet or Excel), a task's TOML file, a DataFrame or a Task.
        overrides: columns, prompt, label words and test rows in place of the inferred ones.
        model: ``opt-mini``, ``smollm2-135m``, a Hugging Face folder or a hub id; default: :func:`default_model`.
        settings: default: :func:`zorba_core.runs.load.suited_settings`.
        alpha: parameter of the Dirichlet division of rows among clients; a smaller one is more uneven.
        division: one of :data:`zorba_core.data.divide.DIVISIONS`; default: ``natural`` if rows name clients.
        threads: CPU threads; default: :func:`zorba_core.runs.load.suited_threads`.
        runs_folder, name: where the run's folder is made, and how its name begins; default: ``<dataset>-<model>``.
        origin: how the allocation was made (solver, budgets, ...), for the run's config.
        force: train even if :mod:`zorba_core.runs.preflight` reports that the settings cannot learn.
        quiet: show no log and no progress bar.

    Raises:
        InvalidInputError, MissingDataError: the request is wrong or cannot learn; nothing was written.
        RunError: the run diverged; its folder has the rounds so far and no summary.
    """
    _check_place(runs_folder, name)
    with shown(quiet):
        model = default_model(data is not None) if model is None else recorded_model(model)
        task = _task_of(dataset, data, overrides, model)
        settings = settings or suited_settings(task, model, {})
        allocation = _allocation_of(allocation, num_clients, settings.method, model)
        threads = suited_threads(read_spec(model).num_parameters) if threads is None else threads
        asked = {"alpha": alpha, "division": division_of(task, division), "threads": threads, "force": force}
        with use_threads(threads), Progress(settings.rounds, task.counted, quiet=quiet) as progress:
            start, rows = _prepare(task, model, allocation, settings, asked)
            name = name or _default_name(task, model, settings)
            path = begin(runs_folder, name, start, model=model, origin=origin, asked=asked)
            _train(path, start, rows, [progress, *callbacks])
    return Run.read(path)


def _check_place(runs_folder: str | os.PathLike[str], name: str | None) -> None:
    check_folder(runs_folder)
    if name is not None:
        check_name(name)


def _allocation_of(
    allocation: Allocation | Solution | None,
    num_clients: int | None,
    method: str,
    model: str | os.PathLike[str],
) -> Allocation:
    """The allocation of a run: the given one, or every block on every client where the method allocates none.

    Raises:
        InvalidInputError: the method needs the other of ``allocation`` and ``num_clients``, or they contradict.
    """
    allocation = allocation.allocation if isinstance(allocation, Solution) else allocation
    if method_facts(method).allocates:
        if allocation is None:
            raise InvalidInputError(f"method {method} needs an allocation: which client activates which blocks")
        if num_clients not in (None, allocation.num_clients):
            raise InvalidInputError(
                f"num_clients is {num_clients} and the allocation is for {allocation.num_clients}; leave one out"
            )
        return allocation
    if allocation is not None:
        raise InvalidInputError(
            f"method {method} activates every block of every client; leave the allocation out and give num_clients"
        )
    if num_clients is None or num_clients < 1:
        raise InvalidInputError(f"num_clients is {num_clients}; method {method} needs the number of clients")
    return Allocation(np.ones((read_spec(model).num_blocks, num_clients), dtype=bool))


def _task_of(
    dataset: str | Task, data: Data | None, overrides: Overrides | None, model: str | os.PathLike[str]
) -> Task:
    if data is not None:
        return task_for(data, overrides, tokenizer=partial(load_tokenizer, model))
    return task_for(dataset if isinstance(dataset, Task) else get_task(dataset), overrides)


def _prepare(
    task: Task,
    model: str | os.PathLike[str],
    allocation: Allocation,
    settings: Settings,
    asked: Mapping[str, Any],
) -> tuple[Start, FederatedRows]:
    """Load the model, choose the prompt, divide the rows, and check the settings.

    Raises:
        InvalidInputError, MissingDataError: model, rows and settings do not fit, or the settings cannot learn.
    """
    network, tokenizer = open_network(model, settings)
    division = {"alpha": asked["alpha"], "division": asked["division"]}
    num_clients, chosen = allocation.num_clients, None
    if task.prompts:
        chosen = choose_local_prompt(task, tokenizer, network, num_clients, settings, **division)
        task = replace(task, prompt=chosen.prompt, prompts=())
        for line in chosen.lines():
            _log.info("%s", line)
    rows, facts = federated_rows(task, tokenizer, num_clients, settings, **division)
    check_fit(network, allocation, rows, settings)
    check_tokens(network, tokenizer, rows.train, rows.evaluation)
    facts |= {} if chosen is None else {"prompts": chosen.describe()}
    if task.is_own:
        facts["baselines"] = baselines(task, load(task), evaluation_frame(task, settings))
    if settings.calibration == "base" and not task.prior:
        task, rows = with_base_preference(task, network, rows)
    checks = _check_settings(network, allocation, rows, settings, asked["force"])
    for line in _cut_lines(facts, settings.seq_len):
        _log.warning("%s", line)
    return Start(task, network, allocation, settings, facts, checks), rows


def _check_settings(
    network: Blocks,
    allocation: Allocation,
    rows: FederatedRows,
    settings: Settings,
    force: bool,
) -> dict[str, Any]:
    """Run the preflight checks; return the measurements for the run's config.

    Raises:
        InvalidInputError: the settings cannot learn, and ``force`` is False.
    """
    with memory_errors():
        checked = preflight(network, allocation, rows, settings)
    if checked.failed and not force:
        raise InvalidInputError(checked.reason())
    if checked.failed:
        _log.warning(f"trained anyway (--force): {checked.findings}")
    if ESTIMATORS[settings.estimator].exact and checked.differences is not None:
        _log.info(checked.differences.sentence())
    return checked.describe()


def _cut_lines(facts: Mapping[str, Any], seq_len: int) -> list[str]:
    """A warning for test rows that are training rows, and for each kind of text that ``seq_len`` cuts."""
    lost = {"prompts_cut": "their text", "answers_cut": "their answer"}
    lines = []
    if repeated := facts.get("evaluation_rows_in_train"):
        lines.append(
            f"{repeated:,} of {facts['evaluation_rows']:,} test rows are training rows too: their accuracy says little "
            "of new texts; remove them from one file"
        )
    of = f"{facts.get('cuts_of', facts['train_rows']):,} rows"
    return lines + [
        f"{facts[name]:,} of {of} are longer than seq_len {seq_len} and lose the end of {what}; a larger seq_len "
        "keeps it"
        for name, what in lost.items()
        if facts.get(name)
    ]


def _default_name(task: Task, model: str | os.PathLike[str], settings: Settings) -> str:
    suffix = "" if method_facts(settings.method).allocates else f"-{settings.method}"
    return plain_name(f"{task.name}-{os.path.basename(os.path.normpath(model))}{suffix}")


def _train(path: Path, start: Start, rows: FederatedRows, callbacks: Sequence[Callback]) -> None:
    """Train in the new run folder ``path`` and write the summary.

    Raises:
        RunError: the run diverged.
    """
    with Log(path) as log:
        complete(path, log, Training.local(start.network, start.allocation, rows, start.settings), callbacks)
