"""One call for a whole fine-tuning run: load, check, divide the data, train, write the run folder.

Everything that can be wrong with a request is found before the run folder is created.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from zorba_core.allocation import Allocation, Solution
from zorba_core.allocation.storage import allocation_sha256
from zorba_core.data.divide import DIRICHLET, NATURAL, divide, division_of
from zorba_core.data.encode import count_cuts, encode, head_tokens, with_label_words
from zorba_core.data.load import clients_of, load
from zorba_core.data.own_rows import fingerprints
from zorba_core.data.own_task import Data, task_for
from zorba_core.data.task import Said, TableRows, Task, get_task
from zorba_core.engine.adapters import with_adapters
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.evaluation import choose_rows
from zorba_core.engine.loop import FederatedRows, LocalRounds, check_fit, check_model
from zorba_core.engine.methods.registry import method_facts
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import check_folder, named_in_errors, readable_as_usual
from zorba_core.runs import DEFAULT_FOLDER, Run, read_run
from zorba_core.runs.complete import complete_run
from zorba_core.runs.environment import describe
from zorba_core.runs.memory_meter import memory_errors
from zorba_core.runs.model_folder import begin_from, save_model
from zorba_core.runs.models import hub_spec, load_model, load_tokenizer, resolve_model
from zorba_core.runs.notices import cut_lines, evaluation_lines
from zorba_core.runs.preflight import preflight
from zorba_core.runs.run_task import task_config, write_task
from zorba_core.runs.threads import check_threads
from zorba_core.runs.token_range import check_tokens
from zorba_core.runs.writer import RunWriter, check_name
from zorba_core.vram import ModelSpec, model_spec

DEFAULT_DATASET = "toy-reviews"
DEFAULT_MODEL = "opt-mini"


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
    model: str | os.PathLike[str] = DEFAULT_MODEL,
    settings: Settings | None = None,
    alpha: float = 1.0,
    division: str | None = None,
    label_words: Sequence[str] | None = None,
    runs_folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    name: str | None = None,
    save_model: bool = False,
    callbacks: Sequence[Callback] = (),
    origin: Mapping[str, Any] | None = None,
    force: bool = False,
    notice: Callable[[str], None] = lambda line: None,
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
            the label or of the answer to write, the prompt, the file to evaluate on, the column that says whose row it
            is.
        notice: called with each line about what was inferred.
        model: ``opt-mini``, a Hugging Face folder, or a hub id.
        alpha: of the Dirichlet division of the rows among clients; smaller is more uneven.
        division: one of :data:`zorba_core.data.divide.DIVISIONS`; default: by the rows' own clients where they name
            them, else ``dirichlet``.
        label_words: words for each label, where the task's own do not suit the model.
        name: first part of the run folder's name; default ``<dataset>-<model>``.
        save_model: also write the fine-tuned model, in Hugging Face format, to ``<run>/model``.
        force: train also with settings that :mod:`zorba_core.runs.preflight` finds cannot learn.
        origin: how the allocation came about (solver, budgets, ...), kept in the run's config.

    Raises:
        InvalidInputError, MissingDataError: the request is wrong or cannot learn; nothing was written.
        RunError: the run diverged; its folder keeps the metrics so far and has no summary.

    An interrupted run can be resumed, whatever stopped it: :func:`zorba_core.runs.resume.resume`.
    """
    settings = settings or Settings()
    allocation = allocation.allocation if isinstance(allocation, Solution) else allocation
    _check_clients(settings.method, allocation, num_clients)
    check_folder(runs_folder)
    check_threads(settings.threads)
    if name is not None:
        check_name(name)
    if data is not None:
        texts = (text,) if isinstance(text, str) and text else tuple(text)
        said = Said(texts, label, answer, prompt, (), client, None if test is None else os.fspath(test))
        task = task_for(data, said, tokenizer=partial(load_tokenizer, model), notice=notice)
    else:
        task = task_for(dataset) if isinstance(dataset, Task) else get_task(dataset)
    task = with_label_words(task, label_words)
    suffix = "" if method_facts(settings.method).allocates else f"-{settings.method}"
    name = check_name(name or _plain(f"{task.name}-{os.path.basename(os.path.normpath(model))}{suffix}"))
    with use_threads(settings.threads):
        network, tokenizer = open_network(task, model, label_words, settings)
        if allocation is None:
            allocation = Allocation(np.ones((network.num_blocks, num_clients), dtype=bool))
        division = division_of(task, division)
        rows, data_facts = divide_rows(task, tokenizer, allocation.num_clients, alpha, settings, division)
        check_fit(network, allocation, rows, settings)
        check_tokens(network, tokenizer, rows.train, rows.evaluation)
        with memory_errors():
            checked = preflight(network, allocation, rows, settings)
        if checked.failed and not force:
            raise InvalidInputError(checked.reason())
        if checked.failed:
            notice(f"forced: {checked.findings}")
        # Not before what may refuse the run in one line.
        for line in (*cut_lines(data_facts, settings.seq_len), *evaluation_lines(rows, settings)):
            notice(line)
        if ESTIMATORS[settings.estimator].exact and checked.differences is not None:
            notice(checked.differences.sentence())
        config = {
            **task_config(task),
            "model": os.fspath(model),
            "label_words": list(task.label_words),
            "num_clients": allocation.num_clients,
            "num_blocks": allocation.num_blocks,
            "alpha": alpha,
            **({} if division == DIRICHLET else {"division": division}),
            **settings.model_dump(),
            "save_model": save_model,
            "force": force,
            "allocation": {
                **(origin or {}),
                "total_blocks": allocation.total_blocks,
                "sha256": allocation_sha256(allocation),
            },
        }
        environment = {
            **describe(settings),
            "base_weights_sha256": network.weights_sha256(),
            "data": data_facts,
            "preflight": checked.describe(),
        }
        with contextlib.closing(RunWriter(runs_folder, name, config, environment, allocation)) as writer:
            path = writer.path
            write_task(path, task)
            rounds = LocalRounds(network, allocation, rows, settings)
            try:
                complete_run(
                    path,
                    writer,
                    rounds,
                    rows.evaluation,
                    callbacks,
                    finish=partial(finish_run, path, network, tokenizer, save_model),
                )
            except RunError as error:
                if not checked.failed:
                    raise
                raise RunError(f"{error}; it was forced although {checked.findings}") from None
    return read_run(path)


def finish_run(path: Path, network: Blocks, tokenizer: PreTrainedTokenizerBase, save_model: bool) -> dict[str, Any]:
    """After the last round: save the model where it was asked for. Returns what the summary says of it."""
    return save_model_in(path, network, tokenizer) if save_model else {}


def save_model_in(path: Path, network: Blocks, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Write the model in Hugging Face format into the run's folder. For the summary: its fingerprint, where merging
    adapters makes it another one than the run's."""
    with named_in_errors(path / "model"):
        saved = save_model(network, path / "model")
        tokenizer.save_pretrained(path / "model")
        readable_as_usual(path / "model")
    return {"saved_weights_sha256": saved} if network.has_adapters else {}


def read_spec(model: str | os.PathLike[str]) -> ModelSpec:
    """M, H, K, alpha and d of a model that :func:`fine_tune` takes, without loading its weights.

    Raises:
        InvalidInputError, MissingDataError: unknown, not available, or of a family whose size cannot be counted.
    """
    source = resolve_model(model)
    return model_spec(source) if os.path.isdir(source) else hub_spec(source)


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


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:100]


@contextlib.contextmanager
def use_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def open_network(
    task: Task, model: str | os.PathLike[str], label_words: Sequence[str] | None, settings: Settings
) -> tuple[Blocks, PreTrainedTokenizerBase]:
    tokenizer = load_tokenizer(model)
    label_ids_C = head_tokens(with_label_words(task, label_words or None), tokenizer)
    loaded = load_model(model)  # float32: float64 begins from the bits of a float32 run
    adapted = None if settings.lora is None else with_adapters(loaded, settings.lora, settings.seed)
    if settings.lora is not None and settings.adapter:
        begin_from(loaded, settings.adapter, settings.lora)
    network = Blocks(
        loaded if adapted is None else adapted,
        label_ids_C,
        dtype=settings.torch_dtype,
        device=settings.device,
        precision=settings.precision,
    )
    network.check()
    check_model(network, settings)
    check_tokens(network, tokenizer, label_ids_C.tolist())
    return network, tokenizer


def divide_rows(
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    num_clients: int,
    alpha: float,
    settings: Settings,
    division: str = DIRICHLET,
) -> tuple[FederatedRows, dict[str, Any]]:
    """The clients' rows and the evaluation rows, with facts about them for ``environment.json``."""
    frame = load(task)
    train = encode(task, frame, tokenizer, settings.seq_len)
    held_N = divide(frame, num_clients, alpha, settings.seed, division)
    evaluation, evaluation_facts = evaluation_rows(task, tokenizer, settings)
    clients = clients_of(frame) if division == NATURAL else ()
    files = fingerprints(task.rows) if isinstance(task.rows, TableRows) else {}
    facts = {
        **_origin_of(frame),
        "train_rows": len(train),
        "train_sha256": train.sha256(),
        "rows_per_client": [len(held) for held in held_N],
        **count_cuts(task, frame, tokenizer, settings.seq_len),
        **({"clients": list(clients)} if clients else {}),
        **({"files": files} if files else {}),
    }
    return FederatedRows(train, held_N, evaluation), {**evaluation_facts, **facts}


def evaluation_rows(task: Task, tokenizer: PreTrainedTokenizerBase, settings: Settings) -> tuple[Rows, dict[str, Any]]:
    """The evaluation rows, with facts about them for ``environment.json``."""
    split = task.rows.evaluation_split
    frame = load(task, split)
    rows = encode(
        task, frame.iloc[choose_rows(len(frame), settings.eval_rows, settings.seed)], tokenizer, settings.seq_len
    )
    facts = {
        **_origin_of(frame),
        "evaluation_split": split,
        "evaluation_rows": len(rows),
        "metric": rows.metric,
        "evaluation_sha256": rows.sha256(),
    }
    return rows, facts


def _origin_of(frame: pd.DataFrame) -> dict[str, str]:
    return {"source": frame.attrs.get("source", ""), "note": frame.attrs.get("note", "")}
