"""Counted memory beside what a CUDA device allocated: `python -m tests.benchmarks.bench_cuda_memory [FILE]`.

Each setting makes a model with random weights on the device and does two rounds (estimate and update). Measured is the
most that PyTorch's allocator handed out in the second, above what stood before it: the model and the libraries' own
room. Counted is ``zorba_core.runs.needs.process_needs`` without its parameters, as preflight says. Asserts nothing.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.benchmarks.bench_engine_memory import CASES, KEYS, activated, batches_of, config_of, play, settings_of
from zorba_core.checksums import write_sealed
from zorba_core.engine.estimators.cohort import rows_at_once
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.settings import TrainSettings
from zorba_core.engine.wide_copies import WideCopies
from zorba_core.planning.answers import LABEL_WORDS
from zorba_core.runs.needs import process_needs

_KEYS = (*KEYS, "precision")
# As on the CPU, and products of less than float32, which a GPU has.
SETTINGS = [(*case, "highest") for case in CASES] + [
    ("opt-mini", 50, 8, 64, 2, "float32", "cohort", None, "bf16"),
    ("opt 384x8", 20, 8, 128, 2, "float32", "cohort", 3, "bf16"),
    ("opt 384x8", 20, 8, 128, 2, "float32", "cohort", 3, "tf32"),
    ("llama 512x6", 10, 8, 128, 2, "float32", "cohort", 2, "bf16"),
    ("gpt2 512x6", 10, 8, 128, 2, "float32", "cohort", 3, "bf16"),
    ("opt-125m", 10, 8, 128, 1, "float32", "cohort", 2, "tf32"),
    ("opt-125m", 10, 8, 128, 1, "float32", "cohort", None, "bf16"),
    # Measured first when the count was done.
    ("opt 128x4", 10, 8, 32, 4, "float32", "cohort", 1, "tf32"),
    ("opt 384x8", 6, 4, 256, 2, "float32", "cohort", 5, "highest"),
    ("llama 512x6", 3, 16, 64, 2, "float64", "cohort", 4, "highest"),
    ("gpt2 512x6", 5, 4, 256, 3, "bfloat16", "cohort", 2, "highest"),
    ("opt-125m", 20, 2, 64, 2, "bfloat16", "cohort", 4, "bf16"),
    ("opt 384x8", 2, 8, 64, 1, "float64", "reference", 4, "highest"),
    ("gpt2 512x6", 8, 8, 64, 0, "float32", "fedit", None, "highest"),
    ("llama 512x6", 6, 8, 64, 0, "float32", "fedit", None, "highest"),
    ("gpt2 512x6", 2, 8, 64, 2, "float32", "jvp", None, "highest"),
    ("opt 128x4", 8, 16, 128, 2, "float32", "exact", 3, "highest"),
    ("opt-125m", 2, 4, 128, 2, "float32", "exact", None, "highest"),
    ("opt-mini", 30, 4, 64, 2, "float32", "low-rank", 5, "highest"),
    ("opt-125m", 4, 4, 256, 2, "float32", "low-rank", 6, "highest"),
    ("llama 512x6", 12, 4, 128, 2, "float32", "low-rank", None, "highest"),
]


def settings_on_card(case: dict[str, Any]) -> TrainSettings:
    return settings_of(case, precision=case["precision"], eval_rows=1, device="cuda")


def measure(case: dict[str, Any]) -> dict[str, Any]:
    values = config_of(case["model"])
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    settings = settings_on_card(case)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=settings.torch_dtype)
    network = BlockNetwork(model, [10, 20], dtype=settings.torch_dtype, device="cuda", precision=settings.precision)
    batches, A_MN = [rows.trimmed("cuda") for rows in batches_of(case)], activated(case, network.num_blocks)
    play(network, batches, A_MN, settings)  # libraries take room of their own, and keep it
    if network._copies is not None:  # a round's own
        network._copies = WideCopies(network._blocks, network._weights_M)
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    play(network, batches, A_MN, settings)
    measured = torch.cuda.max_memory_allocated() - before
    counted = process_needs(config, A_MN, settings, LABEL_WORDS, rows_at_once(network, case["seq_len"]))
    added = counted.total - counted.parameters
    return {"counted": counted.describe(), "measured_bytes": measured, "counted_over_measured": added / measured}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/gpu-memory.json"))
    torch.manual_seed(0)
    file, rows = parser.parse_args().file, []
    for values in SETTINGS:
        case = dict(zip(_KEYS, values, strict=True))
        found = measure(case)
        gc.collect()  # models stand in circles of references
        rows.append({**case, **found})
        print(f"{found['counted_over_measured']:6.3f} {found['measured_bytes'] / 2**20:8.1f} MiB", *values, flush=True)
        ratios = [row["counted_over_measured"] for row in rows]
        result = {
            "what": "most that the allocator handed out in a round above the model, beside the counted memory",
            "rows": rows,
            "settings": len(rows),
            "within_a_tenth": sum(abs(ratio - 1) <= 0.1 for ratio in ratios),
            "ratio": {"least": min(ratios), "median": statistics.median(ratios), "most": max(ratios)},
            "machine": {"device": torch.cuda.get_device_name(), "torch": torch.__version__},
            "seed": 0,
        }
        write_sealed(file, result)
    print(f"{result['within_a_tenth']} of {len(rows)} within a tenth; {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
