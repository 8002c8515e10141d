"""Fine-tune: load, check, divide the rows, train, write the run folder.

Everything that can be wrong with a request is reported before the run folder is created.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from zorba_core.allocation import Allocation, Solution
from zorba_core.data.baselines import baselines
from zorba_core.data.divide import division_of
from zorba_core.data.encode import with_label_words
from zorba_core.data.infer import Data, task_for
from zorba_core.data.load import load
from zorba_core.data.task import Overrides, Task, get_task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import LocalRounds, check_fit
from zorba_core.engine.parts import ESTIMATORS, method_facts
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.settings import Settings, is_large
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_folder
from zorba_core.runs.folder import DEFAULT_FOLDER, Notice, check_name, plain_name
from zorba_core.runs.load import (
    check_tokens,
    evaluation_frame,
    federated_rows,
    open_network,
    read_spec,
    suited_settings,
    suited_threads,
    use_threads,
    with_label_prior,
)
from zorba_core.runs.log import Log
from zorba_core.runs.models import default_model, load_tokenizer
from zorba_core.runs.preflight import preflight
from zorba_core.runs.rate import find_rate
from zorba_core.runs.record import Callback, begin, complete, memory_errors
from zorba_core.runs.run import Run

DEFAULT_DATASET = "toy-reviews"


def fine_tune(
    allocation: Allocation | Solution | None = None,
    *,
    num_clients: int | None = None,
    dataset: str | Task = DEFAULT_DATASET,
    data: Data | None = None,
    text: Sequence[str] | str = (),
    label: str | None = None,
    answer: str | None = None,
    prompt: str | None = None,
    test: str | os.PathLike[str] | None = None,
    client: str | None = None,
    model: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    find_lr: bool | None = None,
    prior: bool | None = None,
    alpha: float = 1.0,
    division: str | None = None,
    label_words: Sequence[str] | None = None,
    threads: int | None = None,
    runs_folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    name: str | None = None,
    callbacks: Sequence[Callback] = (),
    origin: Mapping[str, Any] | None = None,
    force: bool = False,
    notice: Notice = lambda line: None,
) -> Run:
    """Fine-tune ``model`` on ``dataset`` with the clients and blocks of ``allocation``, and read the run back.

    Args:
        allocation: A_MN, or the solution that has it; its columns are the clients, its rows the model's blocks. ZorBA's
            alone: with another ``settings.method`` give ``num_clients`` instead, and every client activates every
            block.
        dataset: a built-in task: ``toy-reviews`` (needs no data), ``sst2``, ``ag-news``, ...; or a :class:`Task`.
        data: rows of your own instead: a file (CSV, TSV, JSON, Parquet or Excel), a task's TOML file, a DataFrame or a
            Task. Columns, labels and prompt that a file does not say are inferred (:mod:`zorba_core.data.infer`).
        text, label, answer, prompt, test, client: of ``data``, what is not to be inferred: the columns of the text, of
            the label or of the answer to write, the prompt, the file to evaluate on, the column of clients.
        model: ``opt-mini``, ``smollm2-135m``, a Hugging Face folder, or a hub id. Default: for ``data`` of your own
            ``smollm2-135m`` where it is on this machine, else ``opt-mini``.
        settings: default: those that suit the model and ``data`` (:func:`zorba_core.runs.load.suited_settings`).
        find_lr: find the learning rate by trial rounds (:mod:`zorba_core.runs.rate`); default: where ``settings`` are
            not given.
        prior: take the model's own preference among the label words out of their scores; default: for ``data`` of your
            own, and for a large model.
        alpha: of the Dirichlet division of the rows among clients; smaller is more uneven.
        division: one of :data:`zorba_core.data.divide.DIVISIONS`; default: by the rows' own clients where they name
            them, else ``dirichlet``.
        label_words: words for each label, where the task's own do not suit the model.
        threads: CPU threads; default: :func:`zorba_core.runs.load.suited_threads`.
        name: first part of the run folder's name; default ``<dataset>-<model>``.
        origin: how the allocation came about (solver, budgets, ...), written to the run's config.
        force: train also with settings that :mod:`zorba_core.runs.preflight` finds unable to learn.
        notice: called with each line about what was inferred.

    Raises:
        InvalidInputError, MissingDataError: the request is wrong or cannot learn; nothing was written.
        RunError: the run diverged; its folder has the rounds so far and no summary.
    """
    model = default_model(data is not None, notice) if model is None else model
    num_parameters = read_spec(model).num_parameters
    suited, settings = settings is None, settings or Settings.suited(num_parameters)
    allocation = allocation.allocation if isinstance(allocation, Solution) else allocation
    _check_clients(settings.method, allocation, num_clients)
    check_folder(runs_folder)
    if name is not None:
        check_name(name)
    if data is None:
        task = task_for(dataset) if isinstance(dataset, Task) else get_task(dataset)
    else:
        texts = (text,) if isinstance(text, str) and text else tuple(text)
        overrides = Overrides(texts, label, answer, prompt, (), client, None if test is None else os.fspath(test))
        task = task_for(data, overrides, tokenizer=partial(load_tokenizer, model), notice=notice)
    task = with_label_words(task, label_words)
    if suited and task.is_own:
        settings = suited_settings(task, model, {})
    threads = suited_threads(num_parameters) if threads is None else threads
    with use_threads(threads):
        network, tokenizer = open_network(model, settings)
        if allocation is None:
            allocation = Allocation(np.ones((network.num_blocks, num_clients), dtype=bool))
        division = division_of(task, division)
        rows, facts = federated_rows(task, tokenizer, allocation.num_clients, settings, alpha=alpha, division=division)
        check_fit(network, allocation, rows, settings)
        check_tokens(network, tokenizer, rows.train, rows.evaluation)
        if task.is_own:
            facts["baselines"] = baselines(task, load(task), evaluation_frame(task, settings))
        prior = task.is_own or is_large(num_parameters) if prior is None else prior
        if prior and task.kind == "labels" and not task.prior:
            task, rows = with_label_prior(task, network, rows)
        rate = find_rate(network, allocation, rows, settings) if (suited if find_lr is None else find_lr) else None
        if rate is not None:
            settings = settings.replace(lr=rate.lr)
            notice(rate.sentence())
        checks = _check_settings(network, allocation, rows, settings, force, rate is not None, notice)
        for line in _cut_lines(facts, settings.seq_len):
            notice(line)
        path = begin(
            runs_folder,
            name or _default_name(task, model, settings),
            task=task,
            model=model,
            network=network,
            allocation=allocation,
            settings=settings,
            facts=facts,
            checks=checks,
            origin=origin,
            rate=rate,
            asked={"alpha": alpha, "division": division, "threads": threads, "force": force},
        )
        with Log(path) as log:
            source = LocalRounds(network, allocation, rows, settings)
            complete(path, log, source, rows.evaluation, callbacks, backs_off=rate is not None)
    return Run.read(path)


def _check_clients(method: str, allocation: Allocation | None, num_clients: int | None) -> None:
    if method_facts(method).allocates:
        if allocation is None:
            raise InvalidInputError(f"method {method} needs an allocation: who activates which blocks")
        if num_clients not in (None, allocation.num_clients):
            raise InvalidInputError(
                f"num_clients is {num_clients} and the allocation is for {allocation.num_clients}; leave one out"
            )
    elif allocation is not None:
        raise InvalidInputError(
            f"method {method} activates every block of every client; leave the allocation out and give num_clients"
        )
    elif num_clients is None or num_clients < 1:
        raise InvalidInputError(f"num_clients is {num_clients}; method {method} needs how many clients take part")


def _check_settings(
    network: Blocks,
    allocation: Allocation,
    rows: FederatedRows,
    settings: Settings,
    force: bool,
    rate_is_measured: bool,
    notice: Notice,
) -> dict[str, Any]:
    """What preflight measured, for the run's config.

    Raises:
        InvalidInputError: the settings cannot learn, nothing forces them, and their rate is not one that was measured
            to lower the loss.
    """
    with memory_errors():
        checked = preflight(network, allocation, rows, settings)
    if checked.failed and not (force or rate_is_measured):
        raise InvalidInputError(checked.reason())
    if checked.failed:
        notice(f"{'forced' if force else 'note'}: {checked.findings}")
    if ESTIMATORS[settings.estimator].exact and checked.differences is not None:
        notice(checked.differences.sentence())
    return checked.describe()


def _cut_lines(facts: Mapping[str, Any], seq_len: int) -> list[str]:
    lost = {"prompts_cut": "their text", "answers_cut": "their answer"}
    return [
        f"{facts[name]:,} of {facts['train_rows']:,} rows are longer than seq_len {seq_len} and lose the end of "
        f"{what}; a larger seq_len keeps it"
        for name, what in lost.items()
        if facts.get(name)
    ]


def _default_name(task: Task, model: str | os.PathLike[str], settings: Settings) -> str:
    suffix = "" if method_facts(settings.method).allocates else f"-{settings.method}"
    return plain_name(f"{task.name}-{os.path.basename(os.path.normpath(model))}{suffix}")
