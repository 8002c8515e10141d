"""One run of an experiment, from its request to a row of the table. Runs in a process of its own or in the caller's.

A run lives in a folder named after the hash of its request, below one for the engine's version, so that whoever starts
it again finds it: finished, to be resumed, or failed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.engine import ENGINE_VERSION
from zorba_core.engine.methods.registry import method_facts
from zorba_core.errors import RunError, ZorbaError
from zorba_core.files import to_json, write_json
from zorba_core.runs import Run
from zorba_core.study.experiments.measures import COLUMNS, allocation_measures
from zorba_core.study.experiments.specs import RunSpec

_FAILED = "failed.json"

RunRows = tuple[dict[str, Any], list[dict[str, Any]]]  # a row of runs.parquet, rows of curves.parquet


@dataclass(frozen=True)
class Refused:
    """The request cannot be run here; other runs can."""

    reason: str


def run_folder(spec: RunSpec, work: Path) -> Path:
    return work / f"engine-{ENGINE_VERSION}" / spec.sha256[:20]


def run_spec(spec: RunSpec, work: Path) -> RunRows | Refused | None:
    """Do one run, or resume it, or find that it is done. A run that diverges is a record too; None where Ctrl-C stopped
    it."""
    from transformers.utils import logging as transformers_logging

    from zorba_core.runs.terminal import Interrupt

    transformers_logging.disable_progress_bar()
    folder = run_folder(spec, work)
    folder.mkdir(parents=True, exist_ok=True)
    done = finished_record(spec, folder)
    if done is not None:
        return done
    interrupt = Interrupt()
    try:
        with interrupt.listening():
            _go(spec, folder, interrupt)
    except RunError as error:
        if str(error).startswith("interrupted"):
            return None
        write_json(folder / _FAILED, {"reason": str(error)})
    except ZorbaError as error:
        return Refused(str(error))
    except KeyboardInterrupt:
        return None
    return finished_record(spec, folder)


def finished_record(spec: RunSpec, folder: Path) -> RunRows | None:
    """The run's rows when it has ended, well or not."""
    if (folder / _FAILED).is_file():
        reason = json.loads((folder / _FAILED).read_text(encoding="utf-8"))["reason"]
        return record_of(spec, _last_run(folder), "failed", reason)
    run = _last_run(folder)
    if run is None or not run.finished:
        return None
    return record_of(spec, run, "finished", "")


def _go(spec: RunSpec, folder: Path, interrupt: Any) -> Run:
    from zorba_core.engine.settings import Settings
    from zorba_core.runs.train import fine_tune

    allocates = method_facts(spec.method).allocates  # the others activate every block of every client
    begun = _last_run(folder)
    if begun is not None:
        try:
            return begun.resume(callbacks=[interrupt])
        except RunError:
            raise
        except ZorbaError:  # cut short before its log began, or its log is damaged: begin again
            shutil.rmtree(begun.path)
    return fine_tune(
        spec.recipe.build() if allocates else None,
        num_clients=None if allocates else spec.recipe.num_clients,
        dataset=spec.dataset,
        model=spec.model,
        settings=Settings(**spec.run_settings()),
        alpha=spec.alpha,
        runs_folder=folder,
        name="run",
        callbacks=[interrupt],
        origin={"recipe": spec.recipe.describe()},
        force=True,  # rates that are too large belong to what is measured
    )


def _last_run(folder: Path) -> Run | None:
    if not folder.is_dir():
        return None
    for path in sorted((path for path in folder.iterdir() if path.is_dir()), reverse=True):
        try:
            return Run.read(path)
        except ZorbaError:
            shutil.rmtree(path)  # cut short while it was being created
    return None


def record_of(spec: RunSpec, run: Run | None, status: str, reason: str) -> RunRows:
    """Rows for the tables. A run that failed keeps its curve, and has no final numbers."""
    measures = allocation_measures(spec.recipe.build())
    settings = {} if run is None else run.config
    evaluations = None if run is None else run.evaluations
    row: dict[str, Any] = {
        "sha256": spec.sha256,
        "engine_version": ENGINE_VERSION,
        "arm": spec.arm,
        "role": spec.role,
        "status": status,
        "reason": reason,
        "seed": spec.seed,
        "dataset": spec.dataset,
        "model": spec.model,
        "alpha": spec.alpha,
        "method": spec.method,
        "num_clients": spec.recipe.num_clients,
        "num_blocks": spec.recipe.num_blocks,
        **{name: measures[name] for name in COLUMNS},
        "config": to_json({"request": spec.request(), "run": settings}),
    }
    for name in ("rounds", "lr", "mu", "directions", "batch_size", "direction", "inactive"):
        row[name] = settings.get(name, spec.settings.get(name))
    row["target"] = spec.settings.get("target")
    if run is not None:
        environment = run.environment
        row |= {
            "data_note": environment["data"]["note"],
            "base_weights_sha256": environment["base_weights_sha256"],
            "git_commit": environment["git_commit"],
            "git_dirty": environment["git_dirty"],
            "machine": f"{environment['platform']} {environment['device']}, {environment['threads']} thread, "
            f"torch {environment['torch']}, {environment['cpu_capability']}",
            "rounds_done": int(run.metrics["round"].max()),
            "initial_loss": float(evaluations["eval_loss"].iloc[0]),
            "initial_accuracy": float(evaluations["eval_accuracy"].iloc[0]),
        }
    if status == "finished":
        row |= _outcome(run, row["target"])
    curves = (
        []
        if evaluations is None
        else [
            {
                "sha256": spec.sha256,
                "round": int(point.round),
                "loss": float(point.eval_loss),
                "accuracy": float(point.eval_accuracy),
                "forward_passes": int(point.forward_passes),
                "seconds": float(point.seconds),
            }
            for point in evaluations.itertuples()
        ]
    )
    return row, curves


def _outcome(run: Run, target: float | None) -> dict[str, Any]:
    summary, evaluations = run.summary, run.evaluations
    sent = summary["communication"]
    reached = evaluations["round"][evaluations["eval_accuracy"] >= (2.0 if target is None else target)]
    late = evaluations[evaluations["round"] > 0.75 * run.config["rounds"]]
    return {
        "rounds_to_target": float(reached.min()) if len(reached) else None,
        "final_loss": summary["final_loss"],
        "final_accuracy": summary["final_accuracy"],
        "late_loss": float(late["eval_loss"].mean()) if len(late) else None,
        "late_accuracy": float(late["eval_accuracy"].mean()) if len(late) else None,
        "best_accuracy": summary["best_accuracy"],
        "forward_passes": summary["forward_passes"],
        "work": summary["work"],
        "sent_paper": sent["up"]["paper"] + sent["down"]["paper"],
        "sent_needed": sent["up"]["needed"] + sent["down"]["needed"],
        "sent_bytes": sent["up"]["wire_bytes"] + sent["down"]["wire_bytes"],
        "psi_gib": summary["vram_gib"]["total"],
        "seconds": summary["seconds"],
        "weights_sha256": summary["weights_sha256"],
    }
