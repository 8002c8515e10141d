"""The outcome of a run in one object: ``summary.json``.

Shapes: N clients, T rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zorba_core.engine.communication import run_communication
from zorba_core.engine.loop import RoundSource
from zorba_core.engine.parts import method_facts
from zorba_core.engine.reports import NOT_ASKED, REPORTED, SILENT, STATUSES
from zorba_core.engine.round import Round
from zorba_core.runs.folder import BACKWARD_WORK
from zorba_core.vram import GIB, Workload, psi_client_bytes, psi_model_bytes, spec_of_model


def summarise(source: RoundSource, rounds: Sequence[Round], measured: Mapping[str, Any]) -> dict[str, Any]:
    """
    Args:
        source: after the last round.
        rounds: all of the run, round 0 included.
        measured: the peak memory.
    """
    settings, network, allocation = source.settings, source.network, source.allocation
    evaluated = [done for done in rounds if done.eval_accuracy is not None]
    best = max(evaluated, key=lambda done: done.eval_accuracy)  # the first of equals
    target = settings.target
    reached = [done.round for done in evaluated if target is not None and done.eval_accuracy >= target]
    total = {name: sum(getattr(done, name) for done in rounds) for name in _TOTALS}
    count_KN = _count_reports(rounds, allocation.num_clients)
    workload = Workload(batch_size=settings.batch_size, seq_len=settings.seq_len)
    spec, trained = spec_of_model(network.model, name="model"), sum(network.sizes_M)
    if network.has_adapters:
        spec = replace(spec, num_parameters=spec.num_parameters + trained)
    vram_N_bytes = psi_client_bytes(spec, workload, allocation.blocks_held_N)
    if method_facts(settings.method).first_order:
        vram_N_bytes = vram_N_bytes + psi_model_bytes(spec, workload)  # the gradients
    sent_reports = int(count_KN.sum() - count_KN[[NOT_ASKED, SILENT]].sum())
    sent = run_communication(
        settings.method,
        allocation.A_MN,
        rounds=rounds[-1].round,
        reports=sent_reports,
        usable_reports=int(count_KN[REPORTED].sum()),
        num_directions=settings.directions,
        num_seeds=settings.num_seeds,
        parameters=trained if network.has_adapters else spec.num_parameters,
        block_parameters=trained,
        bytes_per_number=workload.bytes_per_number,
    )
    return {
        "method": settings.method,
        "stopped_by": "target" if reached else "rounds",
        "rounds_done": rounds[-1].round,
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
        "memory": {"psi_bytes": float(vram_N_bytes.max()), "measured": dict(measured)},
        "vram_gib": {"total": float(vram_N_bytes.sum()) / GIB, "per_client": vram_N_bytes / GIB},
        **total,
        "client_forward_passes": sent_reports * (settings.directions + 1) if settings.directions else 0,
        "work": total["forward_passes"] + BACKWARD_WORK * total["backward_passes"],
        "communication": sent.describe(),
        "reports": _describe(count_KN),
        "weights_sha256": network.weights_sha256(),
    }


_TOTALS = ("seconds", "forward_passes", "backward_passes", "scalars_up", "scalars_down")


def _count_reports(rounds: Sequence[Round], num_clients: int) -> np.ndarray:
    """How often each client had each of the K statuses: (K, N)."""
    count_KN = np.zeros((len(STATUSES), num_clients), dtype=np.int64)
    for done in rounds:
        count_KN[done.status_N, np.arange(len(done.status_N))] += 1
    return count_KN


def _describe(count_KN: np.ndarray) -> dict[str, Any]:
    refused_N = count_KN[NOT_ASKED + 1 :].sum(axis=0) - count_KN[SILENT]
    by_status = zip(STATUSES, count_KN.sum(axis=1), strict=True)
    return {
        **{status.replace(" ", "_"): int(count) for status, count in by_status},
        "refused_by_client": {int(n): int(refused_N[n]) for n in np.flatnonzero(refused_N)},
    }
