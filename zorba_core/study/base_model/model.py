"""The base model's training: it learns to write, and to answer the tasks in donor words.

Shapes: B rows, L token positions, H hidden size, V vocabulary, C classes, R rows of a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM, PreTrainedTokenizerBase

from zorba_core.data.encode import encode, head_tokens
from zorba_core.data.load import load
from zorba_core.data.task import TASKS, Task
from zorba_core.engine.rows import Rows
from zorba_core.study.base_model.corpus import rows_of, task_batches, window_batches
from zorba_core.study.base_model.optimizer import BaseOptimizer
from zorba_core.study.base_model.recipe import BaseModelRecipe
from zorba_core.study.base_model.tokenizer import PAD_ID, START_ID

BaseModel = OPTForCausalLM | LlamaForCausalLM
_WRITES_RESIDUAL = ("out_proj.weight", "fc2.weight", "o_proj.weight", "down_proj.weight")
ReportStep = Callable[[int, str, float], None]  # step, kind of step, its loss


def build_model(recipe: BaseModelRecipe, vocab_size: int, seed: int) -> BaseModel:
    """A new model in evaluation mode (no dropout), its weights drawn from ``seed``.

    The two projections that write into the residual stream start smaller by sqrt(2 M), as in GPT-2.
    """
    model = (_new_llama if recipe.architecture == "llama" else _new_opt)(recipe, vocab_size).eval()
    generator = torch.Generator().manual_seed(seed)
    residual = recipe.init_std / math.sqrt(2 * recipe.num_blocks)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                writes_residual = name.endswith(_WRITES_RESIDUAL)
                weight.normal_(0.0, residual if writes_residual else recipe.init_std, generator=generator)
            else:
                weight.fill_(1.0 if name.endswith("norm.weight") else 0.0)
    return model


def _new_opt(recipe: BaseModelRecipe, vocab_size: int) -> OPTForCausalLM:
    return OPTForCausalLM(
        OPTConfig(
            **_common(recipe, vocab_size),
            word_embed_proj_dim=recipe.hidden_size,
            ffn_dim=round(recipe.ffn_ratio * recipe.hidden_size),
            init_std=recipe.init_std,
            dropout=0.0,
            layerdrop=0.0,
        )
    )


def _new_llama(recipe: BaseModelRecipe, vocab_size: int) -> LlamaForCausalLM:
    """RMS norms, rotary positions, gated feed-forward layers, shared keys; embeddings and head are one table."""
    return LlamaForCausalLM(
        LlamaConfig(
            **_common(recipe, vocab_size),
            num_key_value_heads=recipe.num_key_heads or recipe.num_heads,
            intermediate_size=round(recipe.ffn_ratio * recipe.hidden_size),
            initializer_range=recipe.init_std,
            tie_word_embeddings=True,
        )
    )


def _common(recipe: BaseModelRecipe, vocab_size: int) -> dict[str, Any]:
    """What configs of both architectures call alike."""
    return {
        "vocab_size": vocab_size,
        "hidden_size": recipe.hidden_size,
        "num_hidden_layers": recipe.num_blocks,
        "num_attention_heads": recipe.num_heads,
        "max_position_embeddings": recipe.seq_len,
        "attention_dropout": 0.0,
        "pad_token_id": PAD_ID,
        "bos_token_id": START_ID,
        "eos_token_id": START_ID,
        "use_cache": False,
    }


def blocks_of(model: BaseModel) -> nn.ModuleList:
    """The transformer blocks."""
    return (model.model.decoder if isinstance(model, OPTForCausalLM) else model.model).layers


def donor_prompts(recipe: BaseModelRecipe, tokenizer: PreTrainedTokenizerBase) -> dict[str, Rows]:
    """Base rows of every task in the mixture, as prompts."""
    return {
        name: encode(TASKS[name], load(name, "base"), tokenizer, recipe.seq_len)
        for name in recipe.mixture
        if name != "lm"
    }


def train(
    model: BaseModel,
    recipe: BaseModelRecipe,
    window_WL: torch.Tensor,
    prompts: dict[str, Rows],
    donor_ids: dict[str, torch.Tensor],
    seed: int,
    progress: ReportStep,
) -> None:
    """Run the recipe on ``model``, in place: linear warm-up, cosine decay to a fiftieth, gradients clipped to 1."""
    optimizer = BaseOptimizer(model, blocks_of(model), recipe.matrix_lr, recipe.lr, recipe.weight_decay)
    kinds = _kinds(recipe, seed)
    lm_batches = window_batches(window_WL, recipe.lm_rows)
    batches = {
        name: task_batches(encoded, rows_of(encoded, recipe.task_tokens), seed + index)
        for index, (name, encoded) in enumerate(sorted(prompts.items()))
    }
    for step in range(recipe.total_steps):
        kind = next(kinds)
        if kind == "lm":
            loss = language_loss(model, next(lm_batches))
        else:
            batch = next(batches[kind])
            loss = answer_loss(model, batch, donor_ids[kind])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(_lr_factor(recipe, step))
        model.zero_grad(set_to_none=True)
        progress(step, kind, loss.item())


def _kinds(recipe: BaseModelRecipe, seed: int) -> Iterator[str]:
    rng = np.random.default_rng([seed, 4])
    names = sorted(recipe.mixture)
    share = np.array([recipe.mixture[name] for name in names])
    for step in range(recipe.total_steps):
        yield "lm" if step < recipe.lm_steps else names[rng.choice(len(names), p=share / share.sum())]


def _lr_factor(recipe: BaseModelRecipe, step: int) -> float:
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    return warm * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * step / recipe.total_steps)))


def language_loss(model: BaseModel, token_ids_BL: torch.Tensor) -> torch.Tensor:
    """Mean negative log-likelihood of each next token."""
    hidden_BLH = model.model(input_ids=token_ids_BL).last_hidden_state
    logits_BLV = model.lm_head(hidden_BLH[:, :-1])
    return functional.cross_entropy(logits_BLV.flatten(0, 1), token_ids_BL[:, 1:].flatten())


def answer_hidden(model: BaseModel, batch: Rows) -> torch.Tensor:
    """The final hidden state from which the answer is read, (B, H)."""
    hidden_BLH = model.model(input_ids=batch.token_ids_RL).last_hidden_state
    return hidden_BLH[torch.arange(len(batch)), batch.last_R]


def answer_loss(model: BaseModel, batch: Rows, word_ids_C: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood of the answer among all words of the vocabulary."""
    return functional.cross_entropy(model.lm_head(answer_hidden(model, batch)), word_ids_C[batch.label_E])


@torch.no_grad()
def accuracy(model: BaseModel, encoded: Rows, word_ids_C: torch.Tensor, rows: int = 256) -> float:
    """Share of prompts whose most likely answer, among the C label words, is the right one."""
    head_CH = model.lm_head.weight[word_ids_C]
    order = torch.argsort(encoded.last_R, stable=True)
    right = 0
    for index_B in order.split(rows):
        batch = encoded.rows(index_B).to("cpu")
        right += int((answer_hidden(model, batch) @ head_CH.T).argmax(1).eq(batch.label_E).sum())
    return right / len(encoded)


def first_order_ceiling(
    model: BaseModel, task: Task, tokenizer: PreTrainedTokenizerBase, recipe: BaseModelRecipe, seed: int
) -> None:
    """Fine-tune the blocks of ``model`` in place with exact gradients: federated rows, label words, AdamW."""
    encoded = encode(task, load(task.name, "federated"), tokenizer, recipe.seq_len)
    head_CH = model.lm_head.weight[head_tokens(task, tokenizer)].detach().clone()
    blocks = list(blocks_of(model).parameters())
    optimizer = torch.optim.AdamW(blocks, lr=recipe.first_order_lr, weight_decay=0.01)
    steps = recipe.first_order_steps
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20) * (1 - step / steps))
    batches = task_batches(encoded, rows_of(encoded, recipe.first_order_tokens), seed)
    for _ in range(steps):
        batch = next(batches)
        loss = functional.cross_entropy(answer_hidden(model, batch) @ head_CH.T, batch.label_E)
        grads = torch.autograd.grad(loss, blocks)
        for weight, grad in zip(blocks, grads, strict=True):
            weight.grad = grad
        optimizer.step()
        schedule.step()
