"""``zorba vram``: the paper's VRAM model as numbers (Table II)."""

from __future__ import annotations

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.planning.memory import GIB, Workload, psi_block_bytes, psi_model_bytes, total_bytes
from zorba_core.planning.methods import METHODS
from zorba_core.planning.models import PRESETS, model_spec


def register(app: typer.Typer) -> None:
    app.command("vram")(vram)


def vram(
    model: str = typer.Option("opt-125m", help=f"{', '.join(PRESETS)}, or a Hugging Face folder or config.json."),
    seq_len: int = typer.Option(128, help="L: tokens a sequence (128 for AG-News and SST-2, 256 for SNLI)."),
    batch_size: int = typer.Option(8, help="B: sequences a batch."),
    dtype: str = typer.Option("float32", help="float32, bfloat16, float16 or float64."),
    clients: int = typer.Option(50, help="N: number of clients."),
    total_blocks: int | None = typer.Option(None, help="Activated blocks over all clients (ZorBA only)."),
    method: str = typer.Option("zorba", help=f"{', '.join(METHODS)}."),
    as_json: bool = JSON_OPTION,
) -> None:
    """VRAM of all clients together by the paper's model, for ZorBA or a baseline."""
    spec, workload = model_spec(model), Workload(batch_size, seq_len, dtype)
    result = {
        "model": spec.name,
        "method": method,
        "num_blocks": spec.num_blocks,
        "num_parameters": spec.num_parameters,
        "psi_model_gib": psi_model_bytes(spec, workload) / GIB,
        "psi_block_gib": psi_block_bytes(spec, workload) / GIB,
        "total_gib": total_bytes(spec, workload, clients, total_blocks, method) / GIB,
    }
    shown = total_blocks if METHODS[method].allocates else f"all {spec.num_blocks * clients}"
    lines = [
        f"{spec.name}, {method}, {clients} clients, {shown} blocks, B={batch_size}, L={seq_len}, {dtype}",
        f"  parameters, each client    {result['psi_model_gib']:10.3f} GiB",
        f"  one activated block        {result['psi_block_gib']:10.3f} GiB",
        f"  all clients together       {result['total_gib']:10.2f} GiB",
    ]
    emit(result, as_json, lines)
