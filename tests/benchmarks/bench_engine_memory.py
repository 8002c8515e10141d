"""The derived memory beside measured peaks: `python -m tests.benchmarks.bench_engine_memory [FILE]`.

The libraries are loaded and warmed up on a tiny model once; then each setting has a process of its own, forked from
that one, which makes the setting's model with random weights and does one round (estimate and update). Measured is how
far that process's resident set rose, at its peak, above where it stood at its start; derived is
``zorba_core.planning.engine_memory``. Freed memory goes back to the system at once (MALLOC_MMAP_THRESHOLD_), so that an
allocator's holes are not measured along; ``--plain`` measures with the system's usual allocator instead. Adds to FILE
under "engine" (or "engine, oneDNN": zorba_core.engine.products, unless ``--pytorch`` asks for PyTorch's own products);
asserts nothing. With ``--add``, settings that FILE has are not measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import multiprocessing
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.engine import products
from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.directions import directions_of
from zorba_core.engine.estimators.registry import estimator_of
from zorba_core.engine.methods.first_order import gradient_cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rounding import rounding_of
from zorba_core.engine.rows import Encoded
from zorba_core.engine.settings import TrainSettings
from zorba_core.planning.engine_memory import Load, footprint
from zorba_core.planning.methods import method_facts
from zorba_core.planning.shapes import shape_from_config
from zorba_core.runs.memory_meter import MemoryMeter, resident_bytes

_MMAP_THRESHOLD = -3  # of mallopt: from so many bytes on, memory is the system's and goes back when freed

# Name: config. Vocabularies are small, but for the one of OPT-125M's own: embeddings are parameters like others.
MODELS: dict[str, dict[str, Any]] = {
    "opt 128x4": {"model_type": "opt", "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4},
    "opt-mini": {"model_type": "opt", "hidden_size": 96, "num_hidden_layers": 12, "num_attention_heads": 4},
    "opt 384x8": {"model_type": "opt", "hidden_size": 384, "num_hidden_layers": 8, "num_attention_heads": 6},
    "opt-125m": {"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
    "llama 512x6": {
        "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8,
        "num_key_value_heads": 4, "intermediate_size": 1408,
    },
    "gpt2 512x6": {"model_type": "gpt2", "n_embd": 512, "n_layer": 6, "n_head": 8},
}  # fmt: skip
VOCABULARY = {"opt-mini": 6144, "opt-125m": 50272}
# (model, clients N, rows B, positions L, directions Q, dtype, estimator or fedit, active blocks of each client or None)
CASES = [
    ("opt 128x4", 1, 64, 128, 2, "float32", "cohort", None),
    ("opt 128x4", 40, 16, 64, 2, "float32", "cohort", 2),
    ("opt 128x4", 20, 16, 128, 2, "float64", "cohort", None),
    ("opt 128x4", 1, 128, 128, 2, "float32", "reference", None),
    ("opt 128x4", 4, 128, 128, 0, "float32", "fedit", None),
    ("opt-mini", 50, 8, 64, 2, "float32", "cohort", None),
    ("opt-mini", 50, 8, 64, 2, "float32", "cohort", 4),
    ("opt-mini", 200, 8, 64, 1, "float32", "cohort", 1),
    ("opt-mini", 100, 16, 64, 10, "float32", "cohort", None),
    ("opt-mini", 50, 8, 64, 2, "float64", "cohort", None),
    ("opt-mini", 4, 64, 64, 2, "float32", "reference", None),
    ("opt-mini", 20, 8, 64, 0, "float32", "fedit", None),
    ("opt-mini", 50, 8, 32, 0, "float64", "fedit", None),
    ("opt 384x8", 1, 8, 128, 2, "float32", "cohort", None),
    ("opt 384x8", 1, 64, 128, 2, "float32", "cohort", None),
    ("opt 384x8", 20, 8, 128, 2, "float32", "cohort", 3),
    ("opt 384x8", 1, 32, 128, 1, "float32", "reference", 2),
    ("opt 384x8", 1, 32, 128, 1, "float32", "reference", 8),
    ("opt 384x8", 2, 16, 128, 0, "float32", "fedit", None),
    ("llama 512x6", 1, 8, 128, 2, "float32", "cohort", None),
    ("llama 512x6", 10, 8, 128, 2, "float32", "cohort", 2),
    ("llama 512x6", 1, 32, 128, 1, "float32", "reference", None),
    ("llama 512x6", 2, 8, 128, 0, "float32", "fedit", None),
    ("gpt2 512x6", 1, 8, 128, 2, "float32", "cohort", None),
    ("gpt2 512x6", 10, 8, 128, 2, "float32", "cohort", 3),
    ("gpt2 512x6", 1, 32, 128, 1, "float32", "reference", 3),
    ("gpt2 512x6", 2, 8, 128, 0, "float32", "fedit", None),
    ("opt-125m", 1, 8, 128, 1, "float32", "cohort", 1),
    ("opt-125m", 1, 8, 128, 1, "float32", "cohort", None),
    ("opt-125m", 1, 32, 128, 1, "float32", "cohort", 2),
    ("opt-125m", 1, 8, 128, 1, "float64", "cohort", 2),
    ("opt-125m", 10, 8, 128, 1, "float32", "cohort", 2),
    ("opt-125m", 1, 8, 128, 1, "float32", "reference", 1),
    ("opt-125m", 1, 8, 128, 1, "float32", "reference", None),
    ("opt-125m", 1, 8, 128, 0, "float32", "fedit", None),
    ("opt 128x4", 2, 32, 128, 1, "float32", "jvp", None),
    ("opt 384x8", 1, 8, 128, 1, "float32", "jvp", None),
    ("llama 512x6", 1, 8, 128, 1, "float32", "jvp", None),
    ("opt-125m", 1, 4, 128, 1, "float32", "jvp", None),
    ("opt-mini", 50, 8, 32, 2, "float32", "exact", None),
    ("opt 128x4", 20, 16, 64, 2, "float32", "exact", 2),
    ("opt 384x8", 4, 8, 128, 2, "float32", "exact", None),
    ("llama 512x6", 4, 8, 128, 2, "float32", "exact", None),
    ("gpt2 512x6", 4, 8, 128, 2, "float32", "exact", 3),
    ("opt-mini", 50, 8, 64, 2, "bfloat16", "cohort", None),
    ("opt 384x8", 20, 8, 128, 2, "bfloat16", "cohort", 3),
    ("llama 512x6", 10, 8, 128, 2, "bfloat16", "cohort", 2),
    ("opt-125m", 1, 8, 128, 1, "bfloat16", "cohort", 2),
    ("opt 384x8", 4, 8, 128, 2, "bfloat16", "exact", None),
    ("opt 384x8", 20, 8, 128, 2, "float32", "low-rank", 3),
    ("opt 384x8", 1, 2, 64, 4, "float32", "low-rank", None),
    ("llama 512x6", 10, 8, 128, 2, "float32", "low-rank", 2),
    ("opt-125m", 1, 8, 128, 1, "float32", "low-rank", None),
]
KEYS = ("model", "clients", "batch_size", "seq_len", "perturbations", "dtype", "estimator", "active_blocks")


def config_of(name: str) -> dict[str, Any]:
    config = {"vocab_size": VOCABULARY.get(name, 2000), "tie_word_embeddings": True, **MODELS[name]}
    if config["model_type"] == "opt":
        hidden = config["hidden_size"]
        return {**config, "ffn_dim": 4 * hidden, "word_embed_proj_dim": hidden, "max_position_embeddings": 512}
    return {**config, "n_positions" if config["model_type"] == "gpt2" else "max_position_embeddings": 512}


def derived(case: dict[str, Any]) -> dict[str, Any]:
    shape = shape_from_config(config_of(case["model"]), case["model"])
    fedit = case["estimator"] == "fedit"
    load = Load(
        case["batch_size"], case["seq_len"], case["perturbations"], case["dtype"], case["clients"],
        "cohort" if case["estimator"] in ("fedit", "low-rank") else case["estimator"], first_order=fedit,
        label_words=2, rank=1 if case["estimator"] == "low-rank" else None,
    )  # fmt: skip
    active = activated(case, shape.num_blocks)
    known = active if case["estimator"] == "exact" else active.sum(axis=0)
    return footprint(shape, load, active_blocks=known).describe()


def activated(case: dict[str, Any], num_blocks: int) -> np.ndarray:
    """A_MN: of each client as many blocks as the case says, from another one on."""
    A_MN = np.zeros((num_blocks, case["clients"]), bool)
    for n in range(case["clients"]):
        A_MN[(n + np.arange(case["active_blocks"] or num_blocks)) % num_blocks, n] = True
    return A_MN


def settings_of(case: dict[str, Any], **further: Any) -> TrainSettings:
    fedit, low_rank = case["estimator"] == "fedit", case["estimator"] == "low-rank"
    return TrainSettings(
        method="fedit" if fedit else "zorba", batch_size=case["batch_size"], seq_len=case["seq_len"],
        dtype=case["dtype"], num_perturbations=None if fedit else max(1, case["perturbations"]),
        estimator="cohort" if fedit or low_rank else case["estimator"],
        direction="low-rank" if low_rank else "gaussian", **further,
    )  # fmt: skip


def batches_of(case: dict[str, Any]) -> list[Encoded]:
    rows, length, generator = case["batch_size"], case["seq_len"], torch.Generator().manual_seed(0)
    return [
        Encoded(
            torch.randint(3, 2000, (rows, length), generator=generator),
            torch.full((rows,), length - 1),
            torch.randint(0, 2, (rows,), generator=generator),
        )
        for _ in range(case["clients"])
    ]


def play(network: BlockNetwork, batches: Sequence[Encoded], A_MN: np.ndarray, settings: TrainSettings) -> None:
    """A round: estimate and update."""
    if method_facts(settings.method).first_order:
        for m, gradient in enumerate(gradient_cohort(network, batches).sum_M):
            network.block_weights(m).sub_(gradient, alpha=1e-7)
        return
    directions, seeds = directions_of(network, settings), np.arange(settings.num_perturbations)
    estimated = estimator_of(settings)(network, batches, A_MN, seeds, directions)
    rho_bar_MQ, rounding = average_per_block(estimated.rho_NQ, A_MN), rounding_of(settings, 1)
    update_blocks(network, rho_bar_MQ, seeds, directions, 1e-7, rounding)


def one_round(case: dict[str, Any]) -> int:
    """The peak of the resident set, in bytes, in this process."""
    config, settings = config_of(case["model"]), settings_of(case)
    torch.set_default_dtype(settings.torch_dtype)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config.pop("model_type"), **config))
    torch.set_default_dtype(torch.float32)
    network = BlockNetwork(model, [10, 20], dtype=settings.torch_dtype)
    ctypes.CDLL(None).malloc_trim(0)
    meter = MemoryMeter("cpu")
    meter.begin()
    play(network, batches_of(case), activated(case, network.num_blocks), settings)
    return meter.peak_bytes()


def warm_up() -> None:
    """Touch code, buffers and tables that the libraries keep."""
    for model in ("opt 128x4", "llama 512x6", "gpt2 512x6"):
        for estimator in ("cohort", "exact", "low-rank", "jvp", "fedit"):
            one_round(dict(zip(KEYS, (model, 2, 4, 32, 1, "float32", estimator, None), strict=True)))


def measure(case: dict[str, Any]) -> tuple[int, int]:
    """Bytes that a process of its own, forked from this one, rises by: in a second round and, of that size, the first.

    oneDNN makes code for each size of a product when it first meets it (about half a MiB each), and keeps it: the first
    round has that in it.
    """

    def work(to_parent: Any) -> None:
        warm_up()  # a forked process has the libraries' pages when it has touched them
        first, second = risen(case), risen(case)
        to_parent.send((second, first))

    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sending,))
    process.start()
    sending.close()
    peaks = receiving.recv()
    process.join()
    return peaks


def risen(case: dict[str, Any]) -> int:
    """Bytes that this process rises by in one round."""
    gc.collect()  # the model before stands in circles of references, and would be let go within the round
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes()
    return one_round(case) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/memory.json"))
    parser.add_argument("--plain", action="store_true", help="the system's usual allocator")
    parser.add_argument("--add", action="store_true", help="keep what FILE has")
    parser.add_argument("--pytorch", action="store_true", help="PyTorch's own products, also where oneDNN multiplies")
    arguments = parser.parse_args()
    with products.by_pytorch() if arguments.pytorch else contextlib.nullcontext():
        measure_all(arguments.file, plain=arguments.plain, adds=arguments.add)


def measure_all(file: Path, *, plain: bool, adds: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not plain:
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**16)
    warm_up()
    rows = known(file, plain) if adds else []
    for values in CASES:
        if any(tuple(row[key] for key in KEYS) == values for row in rows):
            continue
        case = dict(zip(KEYS, values, strict=True))
        expected, (measured, first) = derived(case), measure(case)
        ratio = expected["peak_bytes"] / measured
        peaks = {"measured_bytes": measured, "first_round_bytes": first, "derived_over_measured": ratio}
        rows.append({**case, "derived": expected, **peaks})
        first_ratio = expected["peak_bytes"] / first
        print(f"{ratio:6.3f} {first_ratio:6.3f} {expected['peak_bytes'] / 2**20:8.1f} MiB", *values, flush=True)
        _write(file, rows, plain)
    print(_write(file, rows, plain))


def known(file: Path, plain: bool) -> list[dict[str, Any]]:
    """The rows of a file, beside what is derived of their settings now."""
    rows = read_sealed(file).get(_section(plain), {}).get("rows", []) if file.is_file() else []
    for row in rows:
        row["derived"] = derived(row)
        row["derived_over_measured"] = row["derived"]["peak_bytes"] / row["measured_bytes"]
    return rows


def _section(plain: bool) -> str:
    """By what multiplies and what hands out memory: machines keep sections of their own."""
    library = ", oneDNN" if products._onednn_is_faster() else ""
    return f"engine{library}{', usual allocator' if plain else ''}"


def _write(file: Path, rows: list[dict[str, Any]], plain: bool) -> str:
    """Add the rows so far to the file; the summary in words."""
    ratios = [row["derived_over_measured"] for row in rows]
    within = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    result = read_sealed(file) if file.is_file() else {}
    result[_section(plain)] = {
        "what": "peak of the resident set above the libraries, beside the derived terms; one process a setting",
        "rows": rows,
        "settings": len(rows),
        "within_a_tenth": within,
        "ratio": {"least": min(ratios), "median": statistics.median(ratios), "most": max(ratios)},
        "machine": {
            "platform": f"{platform.system()} {platform.machine()}",
            "torch": torch.__version__,
            "load_average": os.getloadavg(),
        },
        "seed": 0,
    }
    write_sealed(file, result)
    return f"{within} of {len(rows)} within a tenth; {min(ratios):.3f} to {max(ratios):.3f}"


if __name__ == "__main__":
    main()
