"""From an allocation to a fine-tuning run in one call: load, check, divide the data, train, write the run folder.

Everything that can be wrong with a request is found before the run folder is created.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedTokenizerBase

from zorba_core.allocation import AllocationMetrics
from zorba_core.errors import MissingDataError, RunError
from zorba_core.files import to_json
from zorba_core.memory import DTYPE_BYTES, GIB, Workload, psi_client_bytes
from zorba_core.models import ModelSpec, model_spec, spec_from_config
from zorba_core.runs import DEFAULT_FOLDER, Run, read_run
from zorba_core.training.callbacks import Callback
from zorba_core.training.datasets import evaluation_split, load_split
from zorba_core.training.environment import describe
from zorba_core.training.evaluation import choose_rows
from zorba_core.training.model_source import load_model, load_tokenizer, resolve_model
from zorba_core.training.network import BlockNetwork
from zorba_core.training.partition import dirichlet_partition
from zorba_core.training.run_writer import RunWriter, check_name
from zorba_core.training.settings import TrainSettings
from zorba_core.training.tasks import Encoded, Task, encode, get_task, label_token_ids
from zorba_core.training.trainer import FederatedRows, Outcome, check_fit, run

DEFAULT_DATASET = "toy-reviews"
DEFAULT_MODEL = "opt-mini"


def fine_tune(
    allocation: AllocationMetrics,
    *,
    dataset: str = DEFAULT_DATASET,
    model: str | os.PathLike[str] = DEFAULT_MODEL,
    settings: TrainSettings | None = None,
    alpha: float = 1.0,
    label_words: Sequence[str] | None = None,
    runs_folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    name: str | None = None,
    save_model: bool = False,
    callbacks: Sequence[Callback] = (),
    origin: Mapping[str, Any] | None = None,
) -> Run:
    """Fine-tune ``model`` on ``dataset`` with the clients and blocks of ``allocation``, and read the run back.

    Args:
        allocation: A_MN; its columns are the clients, its rows the model's blocks.
        dataset: ``toy-reviews`` (needs no data), ``sst2``, ``ag-news`` or ``snli``.
        model: ``opt-mini``, a Hugging Face folder, or a hub id.
        alpha: of the Dirichlet division of the rows among clients; smaller is more uneven.
        label_words: one word for each label, where the task's own do not suit the model's tokenizer.
        name: first part of the run folder's name; default ``<dataset>-<model>``.
        save_model: also write the fine-tuned model, in Hugging Face format, to ``<run>/model``.
        origin: how the allocation came about (solver, budgets, ...), kept in the run's config.

    Raises:
        InvalidInputError, MissingDataError: the request is wrong; nothing was written.
        RunError: the run diverged; its folder keeps the metrics so far and has no summary.
    """
    settings = settings or TrainSettings()
    task = get_task(dataset)
    name = check_name(name or _plain(f"{task.name}-{os.path.basename(os.path.normpath(model))}"))
    with _threads(settings.threads):
        network, tokenizer = _open_network(task, model, label_words, settings)
        rows, data_facts = _divide_rows(task, tokenizer, allocation.num_clients, alpha, settings)
        check_fit(network, allocation, rows, settings)
        config = {
            "dataset": task.name,
            "model": os.fspath(model),
            "label_words": list(label_words or task.label_words),
            "num_clients": allocation.num_clients,
            "num_blocks": allocation.num_blocks,
            "alpha": alpha,
            **asdict(settings),
            "allocation": {
                **(origin or {}),
                "total_blocks": allocation.total_blocks,
                "sha256": hashlib.sha256(to_json(allocation.blocks_per_client).encode()).hexdigest(),
            },
        }
        environment = {**describe(settings), "base_weights_sha256": network.weights_sha256(), "data": data_facts}
        writer = RunWriter(runs_folder, name, config, environment, allocation)
        for callback in callbacks:
            callback.on_start(writer.path)
        try:
            outcome = run(network, allocation, rows, settings, [writer, *callbacks])
        except RunError as error:
            writer.flush()
            raise RunError(f"{error}; the metrics so far are in {writer.path}") from None
        except KeyboardInterrupt:
            writer.flush()
            raise
        if save_model:
            network.save(writer.path / "model")
            tokenizer.save_pretrained(writer.path / "model")
        writer.finish(_summary(network, allocation, settings, outcome))
    return read_run(writer.path)


def read_spec(model: str | os.PathLike[str]) -> ModelSpec:
    """M, H, K, alpha and d of a model that :func:`fine_tune` takes, without loading its weights.

    Raises:
        InvalidInputError, MissingDataError: unknown, not to be had, or of a family whose size cannot be counted.
    """
    source = resolve_model(model)
    if os.path.isdir(source):
        return model_spec(source)
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise MissingDataError(
            f"model {source}: the hub did not give its config ({type(error).__name__}); check the name and "
            "the network, or give a local Hugging Face folder"
        ) from None
    return spec_from_config(config.to_dict(), name=source)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:100]


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _open_network(
    task: Task, model: str | os.PathLike[str], label_words: Sequence[str] | None, settings: TrainSettings
) -> tuple[BlockNetwork, PreTrainedTokenizerBase]:
    tokenizer = load_tokenizer(model)
    words = None if label_words is None else tuple(label_words)
    label_ids_C = label_token_ids(task, tokenizer, words)
    return BlockNetwork(load_model(model), label_ids_C, dtype=settings.torch_dtype, device=settings.device), tokenizer


def _divide_rows(
    task: Task, tokenizer: PreTrainedTokenizerBase, num_clients: int, alpha: float, settings: TrainSettings
) -> tuple[FederatedRows, dict[str, Any]]:
    """The clients' rows and the rows to be judged by, with what is worth knowing about them."""
    split = evaluation_split(task.name)
    train_frame, judged_frame = load_split(task.name, "federated"), load_split(task.name, split)
    chosen = choose_rows(len(judged_frame), settings.eval_rows, settings.seed)
    train = encode(task, train_frame, tokenizer, settings.seq_len)
    judged = encode(task, judged_frame.iloc[chosen], tokenizer, settings.seq_len)
    held_N = dirichlet_partition(train_frame["label"].to_numpy(), num_clients, alpha, settings.seed)
    facts = {
        "source": train_frame.attrs.get("source", ""),
        "note": train_frame.attrs.get("note", ""),
        "train_rows": len(train),
        "train_sha256": _rows_sha256(train),
        "rows_per_client": [len(held) for held in held_N],
        "evaluation_split": split,
        "evaluation_rows": len(judged),
        "evaluation_sha256": _rows_sha256(judged),
    }
    return FederatedRows(train, held_N, judged), facts


def _rows_sha256(rows: Encoded) -> str:
    digest = hashlib.sha256()
    for tensor in (rows.token_ids_RL, rows.last_R, rows.label_R):
        digest.update(f"{tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()


def _summary(
    network: BlockNetwork, allocation: AllocationMetrics, settings: TrainSettings, outcome: Outcome
) -> dict[str, Any]:
    evaluated = [record for record in outcome.records if record.eval_accuracy is not None]
    best = max(evaluated, key=lambda record: record.eval_accuracy)  # the first of equals
    target = settings.target
    reached = [record.round for record in evaluated if target is not None and record.eval_accuracy >= target]
    last = outcome.records[-1]
    # The VRAM model knows the types models are deployed in; a float64 run checks arithmetic and counts as float32.
    dtype = settings.dtype if settings.dtype in DTYPE_BYTES else "float32"
    workload = Workload(settings.batch_size, settings.seq_len, dtype)
    spec = spec_from_config(network.model.config.to_dict(), name="model")
    vram_N_bytes = psi_client_bytes(spec, workload, allocation.blocks_held_N)
    return {
        "stopped_by": outcome.stopped_by,
        "rounds_done": outcome.rounds_done,
        "initial_accuracy": evaluated[0].eval_accuracy,
        "final_accuracy": evaluated[-1].eval_accuracy,
        "final_loss": evaluated[-1].eval_loss,
        "best_accuracy": best.eval_accuracy,
        "best_round": best.round,
        "target": target,
        "rounds_to_target": reached[0] if reached else None,
        "lambda": allocation.bias_lambda,
        "mean_inverse_popularity": allocation.mean_inverse_popularity,
        "effective_clients": allocation.effective_clients,
        "total_blocks": allocation.total_blocks,
        "vram_gib": {"total": float(vram_N_bytes.sum()) / GIB, "per_client": vram_N_bytes / GIB},
        "seconds": last.seconds,
        "forward_passes": last.forward_passes,
        "scalars_up": last.scalars_up,
        "scalars_down": last.scalars_down,
        "weights_sha256": network.weights_sha256(),
    }
