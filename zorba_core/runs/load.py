"""Load the network, the clients' rows and the evaluation rows of a run, with a description of them for its config."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pandas as pd
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from zorba_core.data.describe import repeated, uneven_labels
from zorba_core.data.divide import DIRICHLET, NATURAL, clients_of, divide
from zorba_core.data.encode import RowsOnDemand, encode, encode_counted, suited_length
from zorba_core.data.load import MOST_TESTED, load
from zorba_core.data.sources import fingerprints, missing_file
from zorba_core.data.task import TableRows, Task
from zorba_core.engine.adapters import with_adapters
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import choose_rows, shared_preference
from zorba_core.engine.loop import check_model
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.rows import Examples, Rows
from zorba_core.engine.settings import Settings, is_large
from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.runs.models import hub_spec, load_model, load_tokenizer, max_positions, resolve_model
from zorba_core.vram import ModelSpec, model_spec

_log = logging.getLogger(__name__)

MOST_THREADS = 4  # by default
MOST_ENCODED, SAMPLE = 50_000, 2_000  # of a user's rows; rows that are encoded of a larger table
LONG, LONG_BATCH = 64, 4  # with rows of more than 64 tokens, a large model takes 4 rows of each client a round


def suited_threads(num_parameters: int) -> int:
    """CPU threads for a model of this size. A small one takes one: sharing its short products costs more than it saves.
    A large one takes torch's default (cores, or OMP_NUM_THREADS), at most :data:`MOST_THREADS`."""
    return min(MOST_THREADS, torch.get_num_threads()) if is_large(num_parameters) else 1


@contextlib.contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Context manager: compute with ``count`` CPU threads. For a small model on a busy two-core machine, two threads
    were 40 times slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def open_network(model: str | os.PathLike[str], settings: Settings) -> tuple[Blocks, PreTrainedTokenizerBase]:
    """The base model as blocks, with new adapters if ``lora_rank`` is set, and its tokenizer.

    Raises:
        InvalidInputError, MissingDataError: the model is missing, damaged, or does not fit the settings.
    """
    tokenizer = load_tokenizer(model)
    loaded = load_model(model)
    if settings.lora_rank:
        loaded = with_adapters(loaded, settings.lora_rank, settings.seed)
    network = Blocks(loaded, device=settings.device, precision=settings.precision)
    network.check()
    check_model(network, settings)
    return network, tokenizer


def suited_settings(task: Task, model: str | os.PathLike[str], given: Mapping[str, Any]) -> Settings:
    """:meth:`Settings.suited`; for a user's task also a ``seq_len`` that fits the rows, and a smaller batch for a large
    model with long rows, so that rounds take about the same time; and calibration ``base`` if one label has most rows.
    Values in ``given`` that are not None are kept."""
    num_parameters = read_spec(model).num_parameters
    if task.kind != "labels" and given.get("calibration") is None:
        given = {**given, "calibration": "none"}
    settings = Settings.suited(num_parameters, own_rows=task.is_own, **given)
    check_calibration(task, settings)
    if not task.is_own:
        return settings
    if given.get("calibration") is None and settings.calibration == "batch" and (uneven := uneven_labels(load(task))):
        settings = settings.replace(calibration="base")
        _log.info("%s", uneven)
    if given.get("seq_len") is None:
        length = suited_length(task, load(task), load_tokenizer(model))
        settings = settings.replace(seq_len=min(length, max_positions(model)))
    if given.get("eval_rows") is None and len(load(task, task.rows.evaluation_split)) > MOST_TESTED:
        settings = settings.replace(eval_rows=MOST_TESTED)
    if given.get("batch_size") is None and is_large(num_parameters) and settings.seq_len > LONG:
        settings = settings.replace(batch_size=LONG_BATCH)
    return settings


def read_spec(model: str | os.PathLike[str]) -> ModelSpec:
    """M, H, K, alpha and d of a model, without loading its weights.

    Raises:
        InvalidInputError, MissingDataError: the model is unknown or missing, or its size cannot be computed.
    """
    source = resolve_model(model)
    return model_spec(source) if os.path.isdir(source) else hub_spec(source)


_reused: dict[Any, tuple[Rows, dict[str, int]]] | None = None  # by task, tokenizer and seq_len


@contextlib.contextmanager
def rows_reused() -> Iterator[None]:
    """Context manager: runs of this process that follow each other on one published task encode its training rows once.
    Neither the rows nor the tokenizer may change meanwhile. For sweeps of short runs, where encoding is a third."""
    global _reused
    before, _reused = _reused, {}
    try:
        yield
    finally:
        _reused = before


def federated_rows(
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    num_clients: int,
    settings: Settings,
    *,
    alpha: float = 1.0,
    division: str = DIRICHLET,
) -> tuple[FederatedRows, dict[str, Any]]:
    """The clients' rows and the evaluation rows, with a description of them for the run's config.

    Args:
        alpha, division: see :func:`zorba_core.data.divide.divide`.
    """
    frame = load(task)
    train, cuts = train_rows(task, frame, tokenizer, settings)
    held_N = divide(frame, num_clients, alpha, settings.seed, division)
    evaluation, described = evaluation_rows(task, tokenizer, settings)
    clients = clients_of(frame) if division == NATURAL else ()
    files = fingerprints(task.rows) if isinstance(task.rows, TableRows) else {}
    described |= {
        **_origin(frame),
        "train_rows": len(train),
        "train_sha256": train.sha256(),
        "rows_per_client": [len(held) for held in held_N],
        **cuts,
        **_repeated_rows(task, frame, settings),
        **({"clients": list(clients)} if clients else {}),
        **({"files": files} if files else {}),
    }
    if settings.calibration == "batch":
        train = train.centred()
    return FederatedRows(train, held_N, evaluation), described


def _origin(frame: pd.DataFrame) -> dict[str, Any]:
    """Where the rows come from, and what a result on them must repeat."""
    return {name: frame.attrs[name] for name in ("source", "note")}


def _repeated_rows(task: Task, train: pd.DataFrame, settings: Settings) -> dict[str, int]:
    """How many evaluation rows are training rows too, if any are. Only rows of two files can be."""
    is_own = isinstance(task.rows, TableRows)
    count = repeated(task, train, evaluation_frame(task, settings)) if is_own else 0
    return {"evaluation_rows_in_train": count} if count else {}


def train_rows(
    task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, settings: Settings, most: int | None = None
) -> tuple[Rows | RowsOnDemand, dict[str, int]]:
    """The training rows, and how many lose the end of a text. Of a user's table with more than ``most`` rows (default:
    :data:`MOST_ENCODED`) a sample is encoded and counted (``cuts_of`` rows), and the others when a batch is drawn."""
    if _reused is not None and not isinstance(task.rows, TableRows):
        key = task, tokenizer.name_or_path, settings.seq_len
        if key not in _reused:
            _reused.clear()  # the rows of a published task can take hundreds of megabytes
            _reused[key] = encode_counted(task, frame, tokenizer, settings.seq_len)
        return _reused[key]
    most = MOST_ENCODED if most is None else most
    if not isinstance(task.rows, TableRows) or task.kind == "options" or len(frame) <= most:
        return encode_counted(task, frame, tokenizer, settings.seq_len)
    sample = frame.iloc[choose_rows(len(frame), SAMPLE, settings.seed)]
    cuts = encode_counted(task, sample, tokenizer, settings.seq_len)[1]
    return RowsOnDemand.of(task, frame, tokenizer, settings.seq_len), {**cuts, "cuts_of": len(sample)}


def check_tokens(network: Blocks, tokenizer: PreTrainedTokenizerBase, *parts: Examples | Sequence[int]) -> None:
    """Refuse tokens that the model does not have.

    Args:
        parts: rows, or tokens.

    Raises:
        InvalidInputError: the embeddings or the head have no row for a token; the message names model and token.
    """
    rows = min(network.vocabulary_size, len(cast(nn.Embedding, network.model.get_input_embeddings()).weight))
    if max(tokenizer.get_vocab().values()) < rows:
        return
    largest = max(
        max(map(int, part), default=-1) if isinstance(part, Sequence) else part.largest_token for part in parts
    )
    if largest >= rows:
        raise InvalidInputError(
            f"model {tokenizer.name_or_path}: its tokenizer has {len(tokenizer)} tokens and its weights have rows for "
            f"{rows}; token {largest} ({in_short(tokenizer.convert_ids_to_tokens(largest))}) occurs and has none: "
            "restore the tokenizer's files from a copy, or give a model with its own tokenizer"
        )


def with_base_preference(task: Task, network: Blocks, rows: FederatedRows) -> tuple[Task, FederatedRows]:
    """Task and rows whose scores are minus the base model's own preference for each label word (``calibration`` base).
    It is the mean over clients of the preference on their own texts; labels are not used."""
    prior_C = shared_preference(network, rows.train, rows.held_N)
    rows = FederatedRows(rows.train.with_prior(prior_C), rows.held_N, rows.evaluation.with_prior(prior_C))
    return replace(task, prior=tuple(prior_C.tolist())), rows


def check_calibration(task: Task, settings: Settings) -> None:
    """Refuse a calibration for a task without label words that all rows share.

    Raises:
        InvalidInputError: names the task and the value to give.
    """
    if settings.calibration != "none" and task.kind != "labels":
        raise InvalidInputError(
            f"calibration is {settings.calibration} and {task.name} has no label words that all rows share "
            f"(its kind is {task.kind}); use calibration none"
        )


def evaluation_frame(task: Task, settings: Settings) -> pd.DataFrame:
    """The run's evaluation rows, in order."""
    frame = load(task, task.rows.evaluation_split)
    return frame.iloc[choose_rows(len(frame), settings.eval_rows, settings.seed)]


def evaluation_rows(task: Task, tokenizer: PreTrainedTokenizerBase, settings: Settings) -> tuple[Rows, dict[str, Any]]:
    """The run's evaluation rows as tokens, with a description of them for its config."""
    frame = evaluation_frame(task, settings)
    rows = encode(task, frame, tokenizer, settings.seq_len)
    return rows, {
        **_origin(frame),
        "evaluation_split": task.rows.evaluation_split,
        "evaluation_rows": len(rows),
        "metric": rows.metric,
        "evaluation_sha256": rows.sha256(),
    }


def with_data(
    task: Task, data: str | os.PathLike[str] | None = None, test: str | os.PathLike[str] | None = None
) -> Task:
    """The task with other paths of its rows; None keeps a path.

    Raises:
        InvalidInputError: a built-in task, which has no paths.
    """
    if data is None and test is None:
        return task
    if not isinstance(task.rows, TableRows):
        raise InvalidInputError(f"--data is for runs on your own files; {task.name} is a built-in task")
    moved = {name: os.fspath(path) for name, path in (("train", data), ("test", test)) if path is not None}
    return replace(task, rows=replace(task.rows, **moved))


def check_files(expected: Mapping[str, str], task: Task, run: str | os.PathLike[str]) -> None:
    """Refuse files that are missing or have changed since the run began.

    Args:
        expected: SHA-256 of each file, from the run's config.
        run: the run's folder, for messages.

    Raises:
        MissingDataError, InvalidInputError: names the file and the option that replaces it.
    """
    if not isinstance(task.rows, TableRows):
        return
    absent = missing_file(task.rows)
    if absent:
        raise MissingDataError(f"{absent}: if it was moved, give its path with --data FILE (and --test FILE)")
    if not expected:
        return
    for file, sha256 in fingerprints(task.rows).items():
        if sha256 not in expected.values():
            raise InvalidInputError(
                f"{file} has changed since {os.fspath(run)} began; restore it, or give a copy with --data"
            )


def check_rows(
    described: Mapping[str, Any], expected: Mapping[str, Any], run: str | os.PathLike[str], *kinds: str
) -> None:
    """Refuse rows that differ from the run's. ``described`` and ``expected`` have their checksums; ``kinds``: "train",
    "evaluation".

    Raises:
        InvalidInputError: a checksum differs.
    """
    for kind in kinds:
        if described[f"{kind}_sha256"] != expected[f"{kind}_sha256"]:
            raise InvalidInputError(
                f"the {kind} rows differ from those of {os.fspath(run)}; set ZORBA_DATA to the folder with the run's "
                "data"
            )
