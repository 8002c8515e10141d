"""Fine-tune: load, check, divide the rows, train, write the run folder.

A wrong request is refused before the run folder is made.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zorba_core.allocation import Allocation, Solution
from zorba_core.data.baselines import baselines
from zorba_core.data.infer import Data
from zorba_core.data.load import load
from zorba_core.data.task import Overrides, Task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import Training, check_fit
from zorba_core.engine.parts import ESTIMATORS
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet
from zorba_core.logs import shown
from zorba_core.runs.load import (
    check_tokens,
    evaluation_frame,
    federated_rows,
    open_network,
    use_threads,
    with_base_preference,
)
from zorba_core.runs.log import Log
from zorba_core.runs.preflight import preflight
from zorba_core.runs.prompt import choose_local_prompt
from zorba_core.runs.record import Callback, begin, complete, memory_errors
from zorba_core.runs.request import DEFAULT_DATASET, DEFAULT_FOLDER, ResolvedRequest, TrainRequest
from zorba_core.runs.run import Run
from zorba_core.runs.terminal import Progress

_log = logging.getLogger(__name__)


def fine_tune(
    allocation: Allocation | Solution | None = None,
    *,
    data: Data | None = None,
    dataset: str | Task = DEFAULT_DATASET,
    overrides: Overrides | None = None,
    model: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    num_clients: int | None = None,
    alpha: float = 1.0,
    division: str | None = None,
    threads: int | None = None,
    runs_folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    name: str | None = None,
    force: bool = False,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> Run:
    """Fine-tune ``model`` on your own rows in ``data``, or on ``dataset``; return the run as its folder has it.

    What is inferred, each evaluation and a progress bar are shown on stderr; a program that handles logs gets them from
    ``logging.getLogger("zorba_core")``.

    Args:
        allocation: A_MN (blocks, clients), or the solution that has it, for a method that allocates, as zorba; default:
            the balanced allocation of a fleet that is drawn as in the paper.
        data: your own rows: a file (CSV, TSV, JSON, Parquet or Excel), a task's TOML file, a DataFrame or a Task.
        dataset: or a built-in task: ``toy-reviews`` (needs no data), ``sst2``, ``ag-news``, ...; or a :class:`Task`.
        overrides: columns, prompt, label words and test rows in place of the inferred ones.
        model: ``opt-mini``, ``smollm2-135m``, a Hugging Face folder or a hub id; default: ``smollm2-135m`` for your own
            rows if this machine has it, else ``opt-mini``.
        settings: default: those that suit model and rows (:func:`zorba_core.runs.load.suited_settings`).
        num_clients: N, where there is no allocation; default: 20, and 8 for a large model.
        alpha: parameter of the Dirichlet division of rows among clients; a smaller one is more uneven.
        division: one of :data:`zorba_core.data.divide.DIVISIONS`; default: ``natural`` if rows name clients.
        threads: CPU threads; default: :func:`zorba_core.runs.load.suited_threads`.
        runs_folder, name: where the run's folder is made, and how its name begins; default: ``<dataset>-<model>``.
        force: train even if :mod:`zorba_core.runs.preflight` reports that the settings cannot learn.
        quiet: show no log and no progress bar.

    Raises:
        InvalidInputError, MissingDataError: the request is wrong or cannot learn; nothing was written.
        RunError: training failed; the run's folder has the rounds so far and no summary.
    """
    given = overrides or Overrides()
    if isinstance(allocation, Fleet):
        raise InvalidInputError("a fleet is no allocation; solve it first: zorba.solve(fleet)")
    if isinstance(dataset, Task):
        data, dataset = dataset, DEFAULT_DATASET
    request = TrainRequest(
        data=data,
        dataset=dataset,
        text=given.text or None,
        label=given.label,
        answer=given.answer,
        prompt=given.prompt,
        label_words=given.label_words or None,
        test=given.test,
        sheet=given.sheet,
        client=given.client,
        division=division,
        alpha=alpha,
        model=None if model is None else os.fspath(model),
        clients=num_clients,
        allocation=allocation,
        settings={} if settings is None else settings,
        runs_folder=Path(runs_folder),
        name=name,
        threads=threads,
        force=force,
    )
    return train(request, callbacks=callbacks, quiet=quiet)


def train(request: TrainRequest, *, callbacks: Sequence[Callback] = (), quiet: bool = False) -> Run:
    """Do what is asked.

    Raises:
        InvalidInputError, MissingDataError, RunError: as :func:`fine_tune`.
    """
    with shown(quiet):
        resolved = request.resolve()
        settings = resolved.settings
        progress = Progress(settings.rounds, resolved.task.counted, quiet=quiet)
        with use_threads(resolved.threads), progress:
            network, rows, resolved, described = _load(resolved)
            checks = _check_settings(network, resolved, rows)
            for line in _cut_lines(described, settings.seq_len):
                _log.warning("%s", line)
            path = begin(resolved, network, data=described, checks=checks)
            with Log(path) as log:
                training = Training.local(network, resolved.allocation, rows, settings)
                complete(path, log, training, [progress, *callbacks])
    return Run.read(path)


def _load(request: ResolvedRequest) -> tuple[Blocks, FederatedRows, ResolvedRequest, dict[str, Any]]:
    """Load the model, choose the prompt, and divide the rows.

    Returns:
        The base model, the rows, the request with the prompt and the label preference that were chosen, and a
        description of the rows for the run's config.

    Raises:
        InvalidInputError, MissingDataError: model, rows and settings do not fit.
    """
    task, settings = request.task, request.settings
    network, tokenizer = open_network(request.model, settings)
    chosen = None
    if task.prompts:
        chosen = choose_local_prompt(task, tokenizer, network, request.num_clients, settings, **request.divided)
        task = replace(task, prompt=chosen.prompt, prompts=())
        for line in chosen.lines():
            _log.info("%s", line)
    rows, described = federated_rows(task, tokenizer, request.num_clients, settings, **request.divided)
    check_fit(network, request.allocation, rows, settings)  # before anything is written
    check_tokens(network, tokenizer, rows.train, rows.evaluation)
    if chosen is not None:
        described["prompts"] = chosen.describe()
    if task.is_own:
        described["baselines"] = baselines(task, load(task), evaluation_frame(task, settings))
    if settings.calibration == "base" and not task.prior:
        task, rows = with_base_preference(task, network, rows)
    return network, rows, request.replace(task=task), described


def _check_settings(network: Blocks, request: ResolvedRequest, rows: FederatedRows) -> dict[str, Any]:
    """Run the preflight checks; return the measurements for the run's config.

    Raises:
        InvalidInputError: the settings cannot learn, and the request does not force them.
    """
    with memory_errors():
        checked = preflight(network, request.allocation, rows, request.settings)
    if checked.failed and not request.force:
        raise InvalidInputError(checked.reason())
    if checked.failed:
        _log.warning("trained anyway (--force): %s", checked.findings)
    if ESTIMATORS[request.settings.estimator].exact and checked.differences is not None:
        _log.info("%s", checked.differences.sentence())
    return checked.describe()


def _cut_lines(described: Mapping[str, Any], seq_len: int) -> list[str]:
    """A warning for test rows that are training rows, and for each kind of text that ``seq_len`` cuts."""
    lost = {"prompts_cut": "their text", "answers_cut": "their answer"}
    lines = []
    if repeated := described.get("evaluation_rows_in_train"):
        lines.append(
            f"{repeated:,} of {described['evaluation_rows']:,} test rows are training rows too: their accuracy says "
            "little of new texts; remove them from one file"
        )
    of = f"{described.get('cuts_of', described['train_rows']):,} rows"
    return lines + [
        f"{described[name]:,} of {of} are longer than seq_len {seq_len} and lose the end of {what}; a larger seq_len "
        "keeps it"
        for name, what in lost.items()
        if described.get(name)
    ]
