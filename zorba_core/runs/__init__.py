"""Runs: fine-tune, resume, replay, predict, evaluate, export. Reading a run does not load torch."""

from __future__ import annotations

from zorba_core.runs.folder import DEFAULT_FOLDER
from zorba_core.runs.run import Run, RunListing, list_runs, read_run

__all__ = ["DEFAULT_FOLDER", "Run", "RunListing", "list_runs", "read_run"]
