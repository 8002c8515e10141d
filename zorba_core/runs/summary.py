"""The outcome of a run in one object: ``summary.json``.

Shapes: N clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.communication import run_communication
from zorba_core.engine.loop import Outcome
from zorba_core.engine.methods.registry import method_facts
from zorba_core.engine.records import RoundEntry
from zorba_core.engine.reports import NOT_ASKED, REPORTED, SILENT, STATUSES
from zorba_core.engine.settings import Settings
from zorba_core.runs import BACKWARD_WORK
from zorba_core.vram import GIB, Workload, psi_client_bytes, psi_model_bytes, spec_of_model


class CountReports(Callback):
    """How often each client reported, was not asked, or was refused and why."""

    def __init__(self, num_clients: int, before: Sequence[RoundEntry] = ()) -> None:
        self._count_KN = np.zeros((len(STATUSES), num_clients), dtype=np.int64)  # K statuses
        for entry in before:
            self.on_step(entry)

    def on_step(self, entry: RoundEntry) -> None:
        self._count_KN[entry.status_N, np.arange(len(entry.status_N))] += 1

    @property
    def sent(self) -> int:
        """Reports that arrived, usable or not."""
        return int(self._count_KN.sum() - self._count_KN[[NOT_ASKED, SILENT]].sum())

    @property
    def usable(self) -> int:
        return int(self._count_KN[REPORTED].sum())

    def describe(self) -> dict[str, Any]:
        refused_N = self._count_KN[NOT_ASKED + 1 :].sum(axis=0) - self._count_KN[SILENT]
        return {
            **{
                status.replace(" ", "_"): int(count)
                for status, count in zip(STATUSES, self._count_KN.sum(axis=1), strict=True)
            },
            "refused_by_client": {int(n): int(refused_N[n]) for n in np.flatnonzero(refused_N)},
        }


def summarise(
    network: Blocks,
    allocation: Allocation,
    settings: Settings,
    outcome: Outcome,
    reports: CountReports,
    measured: Mapping[str, Any],
    resumed_after: Sequence[int],
) -> dict[str, Any]:
    evaluated = [record for record in outcome.records if record.eval_accuracy is not None]
    best = max(evaluated, key=lambda record: record.eval_accuracy)  # the first of equals
    target = settings.target
    reached = [record.round for record in evaluated if target is not None and record.eval_accuracy >= target]
    last = outcome.records[-1]
    workload = Workload(batch_size=settings.batch_size, seq_len=settings.seq_len, dtype=settings.dtype)
    spec, trained = spec_of_model(network.model, name="model"), sum(network.sizes_M)
    if network.has_adapters:
        spec = replace(spec, num_parameters=spec.num_parameters + trained)
    vram_N_bytes = psi_client_bytes(spec, workload, allocation.blocks_held_N)
    if method_facts(settings.method).first_order:
        vram_N_bytes = vram_N_bytes + psi_model_bytes(spec, workload)  # the gradients
    sent = run_communication(
        settings.method,
        allocation.A_MN,
        rounds=outcome.rounds_done,
        reports=reports.sent,
        usable_reports=reports.usable,
        num_directions=settings.directions,
        num_seeds=settings.num_seeds,
        parameters=trained if network.has_adapters else spec.num_parameters,
        block_parameters=trained,
        bytes_per_number=workload.bytes_per_number,
    )
    return {
        "method": settings.method,
        "stopped_by": outcome.stopped_by,
        "rounds_done": outcome.rounds_done,
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
        "seconds": last.seconds,
        "forward_passes": last.forward_passes,
        "backward_passes": last.backward_passes,
        "work": last.forward_passes + BACKWARD_WORK * last.backward_passes,
        "scalars_up": last.scalars_up,
        "scalars_down": last.scalars_down,
        "communication": sent.describe(),
        "resumed_after_rounds": list(resumed_after),
        "reports": reports.describe(),
        "weights_sha256": network.weights_sha256(),
    }
