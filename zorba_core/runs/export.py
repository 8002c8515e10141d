"""Export a run's model as a Hugging Face folder with a model card. Loading it does not need this package.

The card is made from the run's folder: origin, training and measured accuracy. It names no machine, no person and no
text of the data.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from torch import nn
from transformers import PreTrainedModel

from zorba_core.data.encode import label_tokens
from zorba_core.data.prompts import answer_space, chat_turn
from zorba_core.data.task import FIELD, Task
from zorba_core.engine.blocks import Blocks, block_list, fingerprint_of
from zorba_core.engine.parts import ESTIMATORS, METHODS
from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_folder, check_new_folder
from zorba_core.runs.folder import RunFolder
from zorba_core.runs.models import without_bar
from zorba_core.runs.quality import wilson
from zorba_core.runs.replay import RunModel, open_model

CARD = "README.md"


def export_run(
    run: RunFolder,
    to: str | os.PathLike[str],
    *,
    model: str | None = None,
    adapter: bool = False,
) -> Path:
    """Write the run's fine-tuned model, its tokenizer and a model card to the new folder ``to``, whole or not at all.

    Args:
        model: folder of the base model, if it is not the one in the run's config.
        adapter: write only the LoRA adapters, in PEFT's format.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.replay.open_model`; the folder exists, or
            cannot be written.
    """
    to = Path(to)
    check_new_folder(to)
    tuned = open_model(run, model=model)
    card = model_card(tuned, to.absolute().name, adapter=adapter)
    with tuned.in_use(), without_bar(), atomic_folder(to) as folder:
        if adapter:
            save_adapters(tuned.network, folder, base_of(tuned.run))
        else:
            save_model(tuned.network, folder)
        tuned.tokenizer.save_pretrained(os.fspath(folder))
        (folder / CARD).write_text(card, encoding="utf-8")
    return to


def save_model(network: Blocks, folder: str | os.PathLike[str]) -> str:
    """Write the model in Hugging Face format, with adapters merged into its weights.

    Returns:
        The fingerprint of the written weights; without adapters it equals ``network.weights_sha256()``.
    """
    if network.adapted is None:
        separate = copy.deepcopy(network.model)
        _unshare(block_list(separate))
    else:
        separate = copy.deepcopy(network.adapted).merge_and_unload()
    separate.save_pretrained(os.fspath(folder))
    return fingerprint_of(separate.named_parameters())


def save_adapters(network: Blocks, folder: str | os.PathLike[str], base: str) -> None:
    """Write only the adapters, in PEFT's format.

    Args:
        base: the name of the base model in the adapters' config.

    Raises:
        InvalidInputError: the model has no adapters.
    """
    if network.adapted is None:
        raise InvalidInputError(
            "this model has no adapters: its blocks' own weights were trained (without --lora-rank)"
        )
    separate = copy.deepcopy(network.adapted)
    _unshare(block_list(cast(PreTrainedModel, separate.get_base_model())))
    separate.peft_config["default"].base_model_name_or_path = base
    separate.save_pretrained(os.fspath(folder))


def _unshare(blocks: Iterable[nn.Module]) -> None:
    """Copy each parameter to its own memory: safetensors refuses parameters that are views of one vector."""
    for block in blocks:
        for parameter in block.parameters():
            parameter.data = parameter.data.clone()


_EXAMPLE, _QUESTION = "The text to classify", "The text to answer"
_NEW_TOKENS = 32
_OPTIONS = {"first": "the first option", "second": "the second option"}


def model_card(tuned: RunModel, folder_name: str, *, adapter: bool = False) -> str:
    """The text of README.md for a folder of this name; with ``adapter`` it has only the adapters."""
    run, task = tuned.run, tuned.run.task
    base = base_of(run)
    sections = [
        _front(run),
        f"# {task.title}: {base}, fine-tuned across {run.request.num_clients} clients",
        f"{base} was fine-tuned for one task{f' ({task.about})' if task.about else ''} by clients that kept their "
        "rows. This folder has "
        + ("the adapters (LoRA) in PEFT's format" if adapter else "the whole model in Hugging Face format")
        + ", with its tokenizer.",
        "## Use",
        _use(tuned, folder_name, adapter),
        "## Measured",
        _measured(run, task),
        "## Data",
        _data(run),
        "## Method",
        _method(run),
        "## Limits",
        "The model was trained and evaluated with this prompt only. Other prompts, other answers and other languages "
        "were not tested.",
    ]
    return "\n\n".join(sections) + "\n"


def _front(run: RunFolder) -> str:
    """The YAML header, which hubs read."""
    lines = ["library_name: transformers", "pipeline_tag: text-generation"]
    model = run.request.model
    if model.count("/") == 1 and not model.startswith((".", "/", "~")) and not os.path.isdir(model):
        lines.append(f"base_model: {model}")  # a hub's name
    lines += ["tags:", "  - federated-learning", "  - zeroth-order-optimization", "  - zorba"]
    return "\n".join(["---", *lines, "---"])


def _use(tuned: RunModel, folder_name: str, adapter: bool) -> str:
    task = tuned.run.task
    text = _QUESTION if task.kind == "text" else _EXAMPLE
    prompt = FIELD.sub(lambda match: text, task.prompt)
    load = [f"answer = pipeline('text-generation', model={folder_name!r})"]
    if adapter:  # pipeline() would load the base model by the name in the adapters' config
        load = [
            "from peft import PeftModel",
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            f"base = AutoModelForCausalLM.from_pretrained({base_of(tuned.run)!r})  # or its folder",
            f"model = PeftModel.from_pretrained(base, {folder_name!r}).merge_and_unload()",
            f"answer = pipeline('text-generation', model=model, "
            f"tokenizer=AutoTokenizer.from_pretrained({folder_name!r}))",
        ]
    lines = ["Run this in the parent of this folder:", "", "```python", "from transformers import pipeline", *load]
    lines += [*_asked(tuned, prompt), "```", ""]
    limit = (
        f"The prompt is {task.prompt!r}. Prompt and answer had at most {tuned.settings.seq_len} tokens in training; "
        "longer texts lost their end."
    )
    if task.kind == "text":
        return "\n".join([*lines, limit])
    prior = ", minus the preference for each word that the training rows share" if task.prior else ""
    lines.append(f"{limit} Answers are compared by the {task.score} of their tokens' log-probabilities{prior}.")
    if task.kind == "labels":
        words = zip(task.label_names, task.label_words, strict=True)
        lines += ["", "| label | word |", "| --- | --- |", *(f"| {name} | `{word}` |" for name, word in words)]
    return "\n".join(lines)


def _asked(tuned: RunModel, prompt: str) -> list[str]:
    """Python lines that print the answer of ``answer``, the pipeline: a text, or the choice with the highest score."""
    task = tuned.run.task
    how = f"max_new_tokens={_NEW_TOKENS}"
    tokens = label_tokens(task, tuned.tokenizer) if task.kind == "labels" else []
    if tokens and all(len(pieces) == 1 for pieces in tokens):
        ids = [pieces[0] for pieces in tokens]
        how = f"max_new_tokens=1, prefix_allowed_tokens_fn=lambda *_: {ids}"
        if task.prior:
            bias = {(token,): -prior for token, prior in zip(ids, task.prior, strict=True)}
            how += f", sequence_bias={bias}"
    if task.kind == "text" or how.startswith("max_new_tokens=1,"):
        asked = [{"role": "user", "content": prompt}] if chat_turn(task, tuned.tokenizer) else prompt
        return [f"print(answer({asked!r}, do_sample=False, return_full_text=False, {how})[0]['generated_text'])"]
    words = dict(zip(task.label_names, task.label_words, strict=True)) if task.kind == "labels" else _OPTIONS
    priors = task.prior or (0.0,) * len(words)
    choices = dict(zip(words, zip(words.values(), priors, strict=True), strict=True))
    return [
        "import torch",
        f"prompt, scores = {prompt!r}, {{}}",
        f"for label, (word, prior) in {choices!r}.items():",
        "    start = len(answer.tokenizer(prompt).input_ids)",
        f"    ids = answer.tokenizer(prompt + {answer_space(task.prompt)!r} + word).input_ids",
        "    logits = answer.model(torch.tensor([ids])).logits[0, start - 1 : -1].detach()",
        "    log_p = logits.log_softmax(-1)[range(len(ids) - start), ids[start:]]",
        f"    scores[label] = float(log_p.{task.score}()) - prior",
        "print(max(scores, key=scores.get))",
    ]


def _measured(run: RunFolder, task: Task) -> str:
    summary, data = run.summary, run.environment["data"]
    written = task.kind == "text"
    what = "Share of written answers that equal the right ones, token by token," if written else "Accuracy"
    over = "the right answers' tokens" if written else "the choices"
    count = data["evaluation_rows"]

    def shown(accuracy: float) -> str:
        low, high = wilson(round(accuracy * count), count)
        return f"{accuracy:.3f} | {low:.3f} to {high:.3f}"

    seen = data.get("evaluation_rows_in_train", 0)
    new = f"{seen:,} of which are training rows too" if seen else "which no client trained on"
    return "\n".join(
        [
            f"{what} on {count:,} rows of {task.title} ({data['evaluation_split']}), {new}:",
            "",
            f"| model | {'exact match' if written else 'accuracy'} | 95 % interval |",
            "| --- | --- | --- |",
            f"| before | {shown(summary['initial_accuracy'])} |",
            f"| this model | {shown(summary['final_accuracy'])} |",
            "",
            f"Its mean cross-entropy over {over} is {summary['final_loss']:.4f} nats.",
        ]
    )


def _data(run: RunFolder) -> str:
    data, clients = run.environment["data"], run.request.num_clients
    facts = [f"{run.task.name}{', ' + data['note'] if data.get('note') else ''}."]
    if "train_rows" in data:
        held = data["rows_per_client"]
        facts.append(
            f"{data['train_rows']:,} training rows, divided among {clients} clients "
            f"({min(held):,} to {max(held):,} rows each)."
        )
    else:
        facts.append(f"The training rows stayed with the {clients} clients.")
    return " ".join(facts)


def _method(run: RunFolder) -> str:
    settings, summary, allocation = run.request.settings, run.summary, run.allocation
    method = METHODS[settings.method]
    highest = max(done.lr for done in run.rounds)
    rate = f"learning rate {settings.lr}" + (f" (up to {highest:.2g})" if settings.lr == "auto" else "")
    if settings.schedule != "constant":
        rate += f" at its highest ({settings.schedule} schedule)"
    lines = [f"- {method.title}: {method.help}; {summary['rounds_done']} rounds, {rate}."]
    if settings.directions:
        along = f"{settings.directions} directions a round ({settings.direction})"
        if not ESTIMATORS[settings.estimator].exact:
            scalars = f"Forward passes only: {along}, difference length {settings.mu:g}"
        else:
            scalars = f"Simulated: exact derivatives along {along}, by backward passes"
        lines.append(f"- {scalars}; {settings.batch_size} rows a client and round.")
    least, most = int(allocation.popularity_M.min()), int(allocation.popularity_M.max())
    lines.append(
        f"- {allocation.total_blocks} of {allocation.num_blocks * allocation.num_clients} client-blocks activated; a "
        f"block by {_span(least, most)} of {allocation.num_clients} clients, a client "
        f"{_span(int(allocation.blocks_held_N.min()), int(allocation.blocks_held_N.max()))} of "
        f"{allocation.num_blocks} blocks. Λ = {allocation.bias_lambda:.4g}, effective clients "
        f"{allocation.effective_clients:.1f}."
    )
    if settings.lora_rank:
        lines.append(f"- Trained: LoRA adapters of rank {settings.lora_rank} on queries and values.")
    else:
        lines.append("- Trained: the transformer blocks. Embeddings, final norm and head are the base model's.")
    made = {name: run.environment.get(name) for name in ("zorba_core", "torch", "transformers")}
    lines.append(
        f"- Weights SHA-256 {summary['weights_sha256'][:16]}, base {run.environment['base_weights_sha256'][:16]}; "
        + ", ".join(f"{name} {version}" for name, version in made.items() if version)
        + f"; seed {settings.seed}."
    )
    return "\n".join(lines)


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def base_of(run: RunFolder) -> str:
    """The base model's name without its folders."""
    return os.path.basename(os.path.normpath(run.request.model))
