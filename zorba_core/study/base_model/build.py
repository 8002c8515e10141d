"""``zorba make-base``: tokenizer, model, training, scores, card, written as one folder or not at all."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib.metadata
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from zorba_core.data.encode import encode, head_tokens, with_label_words
from zorba_core.data.load import load
from zorba_core.data.task import TASKS
from zorba_core.errors import InvalidInputError, in_short
from zorba_core.files import check_folder, named_in_errors, place_folder, write_json, write_text
from zorba_core.study.base_model.card import CARD_FORMAT, card_text
from zorba_core.study.base_model.corpus import corpus_texts, windows
from zorba_core.study.base_model.model import (
    BaseModel,
    accuracy,
    build_model,
    donor_prompts,
    first_order_ceiling,
    train,
)
from zorba_core.study.base_model.recipe import DONOR_WORDS, PROFILES, THREADS, BaseModelRecipe
from zorba_core.study.base_model.tokenizer import build_tokenizer

Log = Callable[[str], None]
_LOG_EVERY = 250
_TOKENIZER_TEXTS = 4  # the tokenizer is trained on one text in so many


def make_base(
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    profile: str = "full",
    threads: int | None = None,
    force: bool = False,
    log: Log = lambda line: None,
) -> dict[str, Any]:
    """Make the base model and write it to the folder ``out``; returns the facts that its ``zorba.json`` holds.

    Seeded: the same seed, versions, processor type and ``threads`` (default: 2 for ``full``, 1 for ``tiny``) give the
    same weights.

    Raises:
        InvalidInputError: unknown profile, or ``out`` is a file, or a folder with something in it and not ``force``,
            also one that appeared meanwhile.
        MissingDataError: profile ``full`` without the corpus and the datasets.
    """
    if profile not in PROFILES:
        raise InvalidInputError(f"unknown profile {profile!r}: choose one of {', '.join(PROFILES)}")
    threads = THREADS[profile] if threads is None else threads
    if threads < 1:
        raise InvalidInputError(f"threads must be at least 1, got {threads}")
    for name, value, most in (("threads", threads, 1024), ("seed", seed, 2**60)):
        if not 0 <= value <= most:
            raise InvalidInputError(f"{name} is {in_short(value)}; it must be from 0 to {most}")
    out = Path(os.path.abspath(Path(os.path.expanduser(out))))
    check_folder(out.parent if out.is_file() else out)
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"{out} is a file: name a folder")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise InvalidInputError(f"{out} is not empty: name another folder, or --force to replace it")
    out.parent.mkdir(parents=True, exist_ok=True)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    work = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        facts = _make(work, out.name, PROFILES[profile], seed, profile, threads, log)
        work.chmod(0o755)
        for file in work.iterdir():
            file.chmod(0o644)  # safetensors writes private files
        if force or out.is_symlink():  # which stood there from the beginning, and leads to an empty folder
            _replace_folder(out, work)
        else:
            place_folder(work, out, "name another folder, or --force to replace it")
    finally:
        torch.set_num_threads(before)
        shutil.rmtree(work, ignore_errors=True)
    return facts


def _make(
    work: Path, name: str, recipe: BaseModelRecipe, seed: int, profile: str, threads: int, log: Log
) -> dict[str, Any]:
    start = time.monotonic()
    texts = corpus_texts(recipe, seed)
    log(f"read {sum(map(len, texts.values())):,} texts")
    task_names = [task for task in TASKS if task in recipe.mixture]
    words = {word for name in DONOR_WORDS for word in (*TASKS[name].label_words, *DONOR_WORDS[name])} | {
        *recipe.spare_words
    }
    log(f"training the tokenizer on {sum(map(len, texts.values())) // _TOKENIZER_TEXTS:,} texts")
    sample = (text for rows in texts.values() for text in rows[::_TOKENIZER_TEXTS])
    tokenizer = build_tokenizer(sample, words, recipe.vocab_size, recipe.seq_len)
    window_WL = windows(texts, tokenizer, recipe.seq_len, seed)
    log(f"{window_WL.numel():,} tokens of running text; encoding the tasks' base rows")
    prompts = donor_prompts(recipe, tokenizer)
    donor_ids = {task: head_tokens(with_label_words(TASKS[task], DONOR_WORDS[task]), tokenizer) for task in task_names}

    model = build_model(recipe, len(tokenizer), seed)
    losses = _Losses(recipe, log)
    train(model, recipe, window_WL, prompts, donor_ids, seed, losses)
    disable_progress_bar()
    with named_in_errors(work):
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)
    scores = {task: _score(model, task, tokenizer, recipe, seed, log) for task in task_names}
    weights = work / "model.safetensors"
    facts = {
        "format": CARD_FORMAT,
        "name": name,
        "seed": seed,
        "profile": profile,
        "steps": recipe.total_steps,
        "num_blocks": recipe.num_blocks,
        "hidden_size": recipe.hidden_size,
        "num_parameters": sum(weight.numel() for weight in model.parameters()),
        "vocab_size": len(tokenizer),
        "seq_len": recipe.seq_len,
        "size_mb": weights.stat().st_size / 1e6,
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "tasks": scores,
        "recipe": dataclasses.asdict(recipe),
        "corpus_rows": {source: len(rows) for source, rows in texts.items()},
        "losses": losses.history,
        "made": {
            "command": f"zorba make-base --out {name} --seed {seed} --profile {profile} --threads {threads}",
            "threads": threads,
            "wall_seconds": round(time.monotonic() - start, 1),
            "hardware": f"{platform.machine()}, {_processor()}, no GPU",
            "versions": {"python": platform.python_version()}
            | {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
        },
    }
    write_json(work / "zorba.json", facts)
    write_text(work / "README.md", card_text(facts))
    return facts


def _score(
    model: BaseModel,
    task_name: str,
    tokenizer: PreTrainedTokenizerBase,
    recipe: BaseModelRecipe,
    seed: int,
    log: Log,
) -> dict[str, Any]:
    """Accuracy with donor words, with label words, and with label words after first-order fine-tuning of a copy."""
    task = TASKS[task_name]
    split = task.rows.evaluation_split
    rows = encode(task, load(task_name, split), tokenizer, recipe.seq_len)
    label_ids = head_tokens(task, tokenizer)
    base = load(task_name, "base")
    score = {
        "evaluation_split": split,
        "evaluation_rows": len(rows),
        "base_rows": len(base),
        "federated_rows": len(load(task_name, "federated")),
        "source": base.attrs["source"],
        "note": base.attrs["note"],
        "label_words": task.label_words,
        "donor_words": DONOR_WORDS[task_name],
        "donor_accuracy": accuracy(model, rows, head_tokens(with_label_words(task, DONOR_WORDS[task_name]), tokenizer)),
        "start_accuracy": accuracy(model, rows, label_ids),
        "first_order_steps": recipe.first_order_steps,
    }
    tuned = copy.deepcopy(model)
    first_order_ceiling(tuned, task, tokenizer, recipe, seed)
    score["ceiling_accuracy"] = accuracy(tuned, rows, label_ids)
    log(
        f"{task_name} {split}: donor words {score['donor_accuracy']:.3f}, label words {score['start_accuracy']:.3f} "
        f"before and {score['ceiling_accuracy']:.3f} after first-order fine-tuning"
    )
    return score


class _Losses:
    """Mean loss by kind of step, now and then as a line with the time left."""

    def __init__(self, recipe: BaseModelRecipe, log: Log) -> None:
        self.history: list[dict[str, Any]] = []
        self._recipe, self._log, self._start = recipe, log, time.monotonic()
        self._recent: dict[str, list[float]] = {}

    def __call__(self, step: int, kind: str, loss: float) -> None:
        self._recent.setdefault(kind, []).append(loss)
        done, total = step + 1, self._recipe.total_steps
        if done % _LOG_EVERY and done != total:
            return
        means = {kind: round(sum(values) / len(values), 4) for kind, values in sorted(self._recent.items())}
        self.history.append({"step": done, **means})
        self._recent.clear()
        elapsed = time.monotonic() - self._start
        left = elapsed * (total - done) / done
        shown = ", ".join(f"{kind} {value:.3f}" for kind, value in means.items())
        self._log(f"step {done} of {total}, {elapsed / 60:.1f} min, about {left / 60:.1f} min left; loss {shown}")


def _replace_folder(out: Path, work: Path) -> None:
    """Put ``work`` in the place of ``out``; what was there stays until the new folder is."""
    if not out.exists():
        work.rename(out)
        return
    old = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-old-"))
    out.rename(old / out.name)
    try:
        work.rename(out)
    except OSError:
        (old / out.name).rename(out)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {models[0] if models else platform.processor() or 'unknown processor'}"
