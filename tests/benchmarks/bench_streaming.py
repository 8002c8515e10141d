"""A model larger than its memory, and what that costs: `python -m tests.benchmarks.bench_streaming memory|seconds`.

``memory``: OPT-1.3B's shape, random weights in float32 written to a temporary folder (5.3 GB, removed afterwards, as is
the copy of the changed blocks). `zorba train --memory-limit 1.25GiB` does one round in a fresh process: preflight,
evaluation before, the round, its update written to the files, evaluation after, each of one row, and the fingerprints
of all weights. Its resident set is watched from here; subtracted is that of a fresh process which has imported the same
libraries and done nothing.

``seconds``: OPT-125M's shape, a round (estimate and update) with the model in memory, as the cohort does it, and one
with the model in its files, alternated in one process; the order turns with each repeat. A streamed round applies the
update before it to each block and writes the block, which is what every round but the first does.

Adds to artifacts/benchmarks/streaming.json; asserts nothing about times.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import OPTConfig, OPTForCausalLM

from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.engine.aggregation import average_per_block, update_blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.block_major import estimate_block_major
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
from zorba_core.runs.model_source import load_tokenizer
from zorba_core.runs.streaming.network import StreamedNetwork, skeleton
from zorba_core.runs.streaming.tensor_files import SINGLE, TensorFiles, paths_in, write_tensors

FILE = Path("artifacts/benchmarks/streaming.json")
SEED, MIB = 0, 2**20
SHAPES = {
    "OPT-1.3B": {"hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 24, "num_attention_heads": 32},
    "OPT-125M": {"hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    "tiny": {"hidden_size": 64, "ffn_dim": 256, "num_hidden_layers": 4, "num_attention_heads": 4},  # to try the script
}
_LIBRARIES = "import zorba_core.cli.train, zorba_core.runs.session, transformers.models.opt.modeling_opt"
_PIECE = 2**22  # numbers drawn at a time


def config_of(shape: str) -> OPTConfig:
    sizes = SHAPES[shape]
    return OPTConfig(vocab_size=50272, max_position_embeddings=2048, word_embed_proj_dim=sizes["hidden_size"], **sizes)


def write_model(folder: Path, shape: str) -> int:
    """Random weights as a model's initial ones, without holding the model; its bytes."""
    config = config_of(shape)
    config.architectures, config.dtype = ["OPTForCausalLM"], torch.float32
    config.save_pretrained(folder)
    load_tokenizer("opt-mini").save_pretrained(folder)
    shapes = {name: tuple(parameter.shape) for name, parameter in skeleton(config).named_parameters()}
    generator = torch.Generator().manual_seed(SEED)

    def pieces() -> Iterator[torch.Tensor]:
        for name, of_tensor in shapes.items():
            if len(of_tensor) == 1:  # biases, and the scales of norms
                yield torch.full(of_tensor, float("norm" in name and name.endswith("weight")))
                continue
            for start in range(0, math.prod(of_tensor), _PIECE):
                count = min(_PIECE, math.prod(of_tensor) - start)
                yield torch.randn(count, generator=generator).mul_(config.init_std)

    write_tensors(folder / SINGLE, shapes, torch.float32, pieces())
    return (folder / SINGLE).stat().st_size


def write_rows(path: Path) -> None:
    """Rows longer than any length used here."""
    rng = np.random.default_rng(SEED)
    words = np.array(["the", "film", "was", "long", "and", "slow", "but", "its", "end", "made", "up", "for", "all"])
    lines = [f"{' '.join(rng.choice(words, 120))},{('good', 'bad')[n % 2]}" for n in range(40)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")


def watched(command: list[str]) -> dict[str, Any]:
    """Run a command; its output, seconds, and the most that its resident set was, as the system and polls say."""
    started, most = time.perf_counter(), 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        while (ended := os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
            status = re.findall(r"Vm(?:HWM|RSS):\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            most = max([most, *(int(value) * 1024 for value in status)])
            time.sleep(0.02)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {ended.si_status}: {err.read()}")
        return {
            "peak_rss_bytes": max(most, usage.ru_maxrss * 1024),
            "seconds": time.perf_counter() - started,
            "out": out.read(),
            "err": err.read(),
        }


def measure_memory(shape: str, limit: str, place: Path) -> dict[str, Any]:
    clients, batch_size, seq_len, directions = 2, 2, 64, 2
    blocks = SHAPES[shape]["num_hidden_layers"]  # every client activates all
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        folder = Path(temporary)
        size = write_model(folder / "model", shape)
        write_rows(folder / "rows.csv")
        libraries = watched([sys.executable, "-c", _LIBRARIES])["peak_rss_bytes"]
        words = f"""train --model {folder / "model"} --data {folder / "rows.csv"} --text text --label label
            --budgets {",".join([str(blocks)] * clients)} --batch-size {batch_size} --seq-len {seq_len}
            --perturbations {directions} --rounds 1 --eval-rows 1 --memory-limit {limit}
            --runs-folder {folder / "runs"} --seed {SEED} --force --json"""
        done = watched([sys.executable, "-m", "zorba_core", *words.split()])
        answer = json.loads(done["out"])
        preflight = json.loads((Path(answer["run"]) / "environment.json").read_text())["preflight"]
    return {
        "what": f"zorba train, one round, {shape}'s shape, float32, memory limit {limit}, in a fresh process",
        "clients": clients,
        "batch_size": batch_size,
        "seq_len": seq_len,
        "directions": directions,
        "active_blocks": answer["total_blocks"],
        "evaluation_rows": 1,
        "model_bytes": size,
        "peak_rss_bytes": done["peak_rss_bytes"],
        "libraries_rss_bytes": libraries,
        "above_libraries_bytes": done["peak_rss_bytes"] - libraries,
        "above_libraries_gib": (done["peak_rss_bytes"] - libraries) / 2**30,
        "target_gib": 1.25,
        "own_count_bytes": answer["memory"]["peak_bytes"],
        "planned": answer["memory"]["planned"],
        "rounds_done": answer["rounds_done"],
        "final_loss": answer["final_loss"],
        "preflight": {check["name"]: check["measured"] for check in preflight["checks"]},
        "seconds": {"round with its update and the evaluation after it": answer["seconds"], "command": done["seconds"]},
    }


def measure_seconds(shape: str, num_directions: int, repeats: int, place: Path, rows: int = 8) -> dict[str, Any]:
    clients, length = 4, 128
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    batches_N = [
        Encoded(
            torch.randint(3, 50_000, (rows, length), generator=generator),
            torch.full((rows,), length - 1),
            torch.randint(0, 2, (rows,), generator=generator),
        )
        for _ in range(clients)
    ]
    small = [Encoded(b.token_ids_RL[:1, :8], b.last_R[:1] * 0 + 7, b.label_R[:1]) for b in batches_N[:1]]
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        folder = Path(temporary)
        write_model(folder / "model", shape)
        whole = OPTForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
        networks = {
            "in memory": (BlockNetwork(whole, [10, 20]), estimate_cohort),
            "streamed": (
                StreamedNetwork(skeleton(whole.config), TensorFiles(paths_in(folder / "model")), [10, 20]),
                estimate_block_major,
            ),
        }
        networks["streamed"][0].store.use_scratch(folder / "blocks")
        seconds: dict[str, list[float]] = {name: [] for name in networks}
        cpu_seconds: dict[str, list[float]] = {name: [] for name in networks}
        scalars: dict[str, list[np.ndarray]] = {name: [] for name in networks}

        def one_round(name: str, batches: list[Encoded], seeds: np.ndarray) -> None:
            network, estimate = networks[name]
            directions = Directions("gaussian", network.shapes_M, dtype=network.dtype)
            A_MN = np.ones((network.num_blocks, len(batches)), dtype=bool)
            rho_NQ = estimate(network, batches, A_MN, seeds, directions, mu=1e-3).rho_NQ
            update_blocks(network, average_per_block(rho_NQ, A_MN), seeds, directions, 1e-7)
            scalars[name].append(rho_NQ)

        for name in networks:  # the libraries' buffers, and an update that is due
            one_round(name, small, np.arange(1000, 1000 + num_directions))
        for repeat in range(repeats):
            for name in list(networks) if repeat % 2 == 0 else reversed(networks):
                started, cpu_started = time.perf_counter(), time.process_time()
                one_round(name, batches_N, np.arange(num_directions) + 10 * repeat)
                seconds[name].append(time.perf_counter() - started)
                cpu_seconds[name].append(time.process_time() - cpu_started)
                print(f"{name}: {seconds[name][-1]:.1f} s, {cpu_seconds[name][-1]:.1f} s of the CPU", flush=True)
        same = all(np.array_equal(*pair) for pair in zip(*scalars.values(), strict=True))
        sha256 = {network.weights_sha256() for network, _ in networks.values()}
    ratios, cpu_ratios = (
        [streamed / memory for memory, streamed in zip(*of_kind.values(), strict=True)]
        for of_kind in (seconds, cpu_seconds)
    )
    return {
        "what": f"a round (estimate and update), {shape}'s shape, float32, every block active, one thread",
        "clients": clients,
        "batch_size": rows,
        "seq_len": length,
        "directions": num_directions,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,  # of this process: what the machine's other work does not change much
        "ratios": ratios,
        "cpu_ratios": cpu_ratios,
        "median_ratio": median(ratios),
        "target": "1.15 at batch_size 8 and 10 directions",
        "same_scalars": same,
        "same_weights": len(sha256) == 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("memory", "seconds"))
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    parser.add_argument("--shape", choices=SHAPES, help="default: OPT-1.3B for memory, OPT-125M for seconds")
    parser.add_argument("--limit", default="1.25GiB")
    parser.add_argument("--directions", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()), help="with room for twice the model")
    arguments = parser.parse_args()
    if arguments.what == "memory":
        measured = measure_memory(arguments.shape or "OPT-1.3B", arguments.limit, arguments.place)
    else:
        shape = arguments.shape or "OPT-125M"
        measured = measure_seconds(shape, arguments.directions, arguments.repeats, arguments.place, arguments.rows)
    result = read_sealed(arguments.file) if arguments.file.is_file() else {}
    result[arguments.what] = {
        **measured,
        "machine": {
            "platform": f"{platform.system()} {platform.machine()}",
            "cpus": os.cpu_count(),
            "torch": torch.__version__,
            "load_average": os.getloadavg(),
        },
        "seed": SEED,
    }
    write_sealed(arguments.file, result)
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
