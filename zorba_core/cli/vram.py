"""``zorba vram``: the paper's VRAM model as numbers (Table II)."""

from __future__ import annotations

import typer

from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.engine.parts import METHODS, method_facts
from zorba_core.vram import GIB, PRESETS, Workload, model_spec, psi_block_bytes, psi_model_bytes


def vram(
    model: str = typer.Option("opt-125m", help=f"{', '.join(PRESETS)}, or a Hugging Face folder or config.json."),
    workload: Workload = options_of(
        Workload, help={"seq_len": "tokens a sequence (128 for AG-News and SST-2, 256 for SNLI)."}
    ),
    clients: int = typer.Option(50, help="N: number of clients."),
    total_blocks: int | None = typer.Option(None, help="Activated blocks over all clients (ZorBA only)."),
    method: str = typer.Option("zorba", help=f"{', '.join(METHODS)}."),
    as_json: bool = JSON_OPTION,
) -> None:
    """VRAM of all clients together by the paper's model, for ZorBA or a baseline."""
    spec = model_spec(model)
    result = {
        "model": spec.name,
        "method": method,
        "num_blocks": spec.num_blocks,
        "num_parameters": spec.num_parameters,
        "psi_model_gib": psi_model_bytes(spec, workload) / GIB,
        "psi_block_gib": psi_block_bytes(spec, workload) / GIB,
        "total_gib": method_facts(method).total_bytes(spec, workload, clients, total_blocks) / GIB,
    }
    shown = total_blocks if METHODS[method].allocates else f"all {spec.num_blocks * clients}"
    lines = [
        f"{spec.name}, {method}, {clients} clients, {shown} blocks, B={workload.batch_size}, L={workload.seq_len}, "
        f"{workload.dtype}",
        f"  parameters, each client    {result['psi_model_gib']:10.3f} GiB",
        f"  one activated block        {result['psi_block_gib']:10.3f} GiB",
        f"  all clients together       {result['total_gib']:10.2f} GiB",
    ]
    emit(result, as_json, lines)
