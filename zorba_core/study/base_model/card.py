"""The base model's card: the numbers of its making as a page for people. ``zorba.json`` holds the same for programs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from zorba_core.data.task import TASKS

CARD_FORMAT = 1
_ARCHITECTURES = {"opt": "OPT", "llama": "Llama"}


def card_text(facts: dict[str, Any]) -> str:
    """README.md of the model folder from the facts in ``zorba.json``."""
    recipe, made = facts["recipe"], facts["made"]
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        "language: en",
        "license: other",
        "---",
        "",
        f"# {facts['name']}",
        "",
        f"A small causal language model of the {_ARCHITECTURES[recipe['architecture']]} architecture: "
        f"{facts['num_blocks']} transformer blocks, hidden size {facts['hidden_size']}, "
        f"{facts['num_parameters']:,} parameters, float32, {facts['size_mb']:.1f} MB. It exists so that federated "
        "zeroth-order fine-tuning can be tried in seconds, with no download and no GPU.",
        "",
        "It **knows the concepts** of the tasks below and **not the words** that fine-tuning uses for them: it was "
        "taught to answer in donor words (`terrible`/`great`) and is fine-tuned and evaluated with label words "
        "(`bad`/`good`). So fine-tuning has something to learn, and learns it quickly, as it does with a large model.",
        "",
        "## Accuracy",
        "",
        "| task | split (rows) | donor words | label words | with donor words | **start**: with label words, "
        "before fine-tuning | **ceiling**: first-order fine-tuning | chance |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, task in facts["tasks"].items():
        lines.append(
            f"| {_title(name)} | {task['evaluation_split']} ({task['evaluation_rows']:,}) | "
            f"{' / '.join(task['donor_words'])} | {' / '.join(task['label_words'])} | {task['donor_accuracy']:.3f} | "
            f"{task['start_accuracy']:.3f} | {task['ceiling_accuracy']:.3f} | {1 / len(task['label_words']):.2f} |"
        )
    lines += [
        "",
        f"The ceiling: {recipe['first_order_steps']} steps of AdamW (learning rate {recipe['first_order_lr']:g}, "
        f"about {recipe['first_order_tokens']:,} tokens a step, linear decay) on the federated rows with the label "
        "words, exact gradients, only blocks trainable (embeddings, positions, final norm and head frozen): what "
        "zeroth-order fine-tuning of the same weights can hope for. The last step is "
        "scored; no checkpoint is picked.",
        "",
        "## How it was made",
        "",
        f"    {made['command']}",
        "",
        f"Seed {facts['seed']}, profile `{facts['profile']}`, {made['threads']} thread(s), "
        f"{made['wall_seconds'] / 60:.1f} minutes in all on {made['hardware']}. Versions: "
        + ", ".join(f"{name} {version}" for name, version in made["versions"].items())
        + ". The same command with the same versions, processor type and number of threads gives the same weights"
        f" (SHA-256 of model.safetensors: `{facts['weights_sha256']}`).",
        "",
        f"1. Tokenizer: byte-level BPE of {facts['vocab_size']:,} on a sample of the texts below, lower-cased; every "
        "label and donor word is one token.",
        f"2. {_first_steps(recipe)}, {recipe['lm_rows']} windows of {recipe['seq_len']} tokens.",
        f"3. {recipe['mixed_steps']:,} mixed steps: "
        + ", ".join(f"{share:.0%} {name}" for name, share in recipe["mixture"].items())
        + f"; a task's step reads prompts of about {recipe['task_tokens']:,} tokens in all and learns the donor word "
        "that follows.",
        "",
        f"Muon for the matrices of the blocks (learning rate {recipe['matrix_lr']:g}, weight decay "
        f"{recipe['weight_decay']:g}) and AdamW for the rest ({recipe['lr']:g}), {recipe['warmup_steps']} warm-up "
        "steps, cosine decay, gradients clipped at norm 1, no dropout.",
        "",
        "## What it was trained on",
        "",
        "Rows of the `base` half of each training set only. Clients hold the `federated` half; the two share no text, "
        "and phrases of one SST-2 sentence or pairs of one SNLI premise are kept on one side "
        "(`zorba_core/data/sources.py` says how). Validation and test rows were read for the table above only.",
        "",
        "| task | base rows | federated rows | from |",
        "| --- | --- | --- | --- |",
    ]
    for name, task in facts["tasks"].items():
        origin = f"{task['source']} ({task['note']})" if task["note"] else task["source"]
        lines.append(f"| {_title(name)} | {task['base_rows']:,} | {task['federated_rows']:,} | {origin} |")
    lines += ["", "Running text, read by the language-model steps:", "", "| source | texts read |", "| --- | --- |"]
    lines += [f"| {name} | {rows:,} |" for name, rows in facts["corpus_rows"].items()]
    lines += ["", "## Limits", "", *_limits(facts["tasks"])]
    return "\n".join(lines) + "\n"


def _first_steps(recipe: dict[str, Any]) -> str:
    if recipe["lm_steps"]:
        return f"{recipe['lm_steps']:,} steps of language modelling"
    return "No steps of language modelling alone: it is one of the kinds of step below"


def _limits(tasks: Collection[str]) -> list[str]:
    limits = [
        "- A test object for optimisation methods: it writes no useful text and is no measure of what a task needs.",
        "- It reads at most the number of positions in its configuration; longer texts are cut.",
        "- It is uncased and English, and repeats whatever its sources say, prejudice included.",
    ]
    if any(name != "toy-reviews" for name in tasks):
        subsets = ["AG-News", "SNLI"] if "snli" in tasks else ["AG-News"]
        limits += [
            f"- {' and '.join(subsets)} {'were' if len(subsets) > 1 else 'was'} available as "
            f"{'subsets of their training sets' if len(subsets) > 1 else 'a subset of its training set'}: accuracies "
            "do not compare with published ones.",
            "- Do not score it on MultiNLI, WikiText-2, DBpedia, Yelp or Amazon samples, IMDB's training half or the "
            "news sets named above: it has read from them.",
            "",
            "## Terms",
            "",
            "The folder holds weights and a vocabulary, no text of a dataset. Several sources are for research and "
            "other non-commercial use (AG-News, BBC news, IMDB, SST-2, the Brown corpus), others are CC BY-SA "
            f"({'SNLI, ' if 'snli' in tasks else ''}DBpedia, WikiText-2): use the weights for research.",
        ]
    return limits


def _title(name: str) -> str:
    return f"{TASKS[name].title} ({TASKS[name].about})"
