"""Versions, data and devices: one finding for each thing, with what to do where it is amiss.

``broken`` means that training cannot work; ``note`` that something is absent which only some things need, or is worth
knowing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from packaging.requirements import Requirement

import zorba_core

FindingState = Literal["ok", "note", "broken"]
_DISTRIBUTION = "zorba-core"


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and the way to put it right (empty when it is)."""

    name: str
    state: FindingState
    found: str
    cure: str = ""


def examine() -> tuple[Finding, ...]:
    """Look at everything. Nothing is changed, and one check that fails hides no other."""
    checks: Sequence[Callable[[], list[Finding]]] = (_python, _packages, _torch, _processor, _data)
    return tuple(finding for check in checks for finding in check())


def _python() -> list[Finding]:
    return [Finding("python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}")]


def _packages() -> list[Finding]:
    """Every dependency against the range it is declared with, and each extra as a whole."""
    findings: list[Finding] = []
    try:
        declared = [Requirement(line) for line in importlib.metadata.requires(_DISTRIBUTION) or ()]
    except importlib.metadata.PackageNotFoundError:
        return [Finding("packages", "broken", f"{_DISTRIBUTION} is not installed", "pip install -e . in the checkout")]
    core = [need for need in declared if need.marker is None or need.marker.evaluate({"extra": ""})]
    wrong = [problem for need in core if (problem := _wrong(need))]
    cure = "pip install -c constraints.txt torch==2.13.0 -e ."
    findings.append(
        Finding("packages", "broken", "; ".join(wrong), cure)
        if wrong
        else Finding("packages", "ok", f"{len(core)} dependencies within their ranges")
    )
    for extra in sorted(set(importlib.metadata.metadata(_DISTRIBUTION).get_all("Provides-Extra") or ())):
        needs = [need for need in declared if need not in core and need.marker.evaluate({"extra": extra})]
        wrong = [problem for need in needs if (problem := _wrong(need))]
        cure = f"pip install -c constraints.txt torch==2.13.0 -e '.[{extra}]'"
        findings.append(
            Finding(f"extra {extra}", "note", "; ".join(wrong), cure)
            if wrong
            else Finding(f"extra {extra}", "ok", f"{len(needs)} packages")
        )
    return findings


def _wrong(need: Requirement) -> str:
    try:
        version = importlib.metadata.version(need.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{need.name} is not installed"
    return "" if need.specifier.contains(version, prereleases=True) else f"{need.name} {version}, want {need.specifier}"


def _torch() -> list[Finding]:
    try:
        import torch
    except (ImportError, OSError) as error:
        why = str(error).splitlines()[0]
        return [Finding("torch", "broken", f"cannot be loaded ({why})", "pip install torch==2.13.0")]
    findings = [Finding("torch", "ok", f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()} kernels")]
    if torch.cuda.is_available():
        cards = [
            f"{torch.cuda.get_device_name(i)} ({torch.cuda.get_device_properties(i).total_memory / 2**30:.0f} GiB)"
            for i in range(torch.cuda.device_count())
        ]
        return [*findings, Finding("cuda", "ok", ", ".join(cards))]
    if torch.version.cuda is None:
        return [*findings, Finding("cuda", "note", "this PyTorch is a CPU build", "for a GPU, install its CUDA build")]
    return [*findings, Finding("cuda", "note", "PyTorch sees no GPU", "for a GPU, check its driver with nvidia-smi")]


def _processor() -> list[Finding]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    text = f"{usable} cores, load {busy:.1f}; zorba train uses --threads of them, 1 by default"
    if busy > usable:
        return [Finding("processor", "note", text, "other work keeps the cores busy: timings will not be good")]
    return [Finding("processor", "ok", text)]


def _data() -> list[Finding]:
    from zorba_core.data.load import DATA_VARIABLE
    from zorba_core.data.task import TASKS, PublishedRows

    named = os.environ.get(DATA_VARIABLE, "")
    cure = f"set {DATA_VARIABLE} to a folder with sst2/, ag_news/ and snli/; toy-reviews needs no data"
    if not named:
        return [Finding("data", "note", f"{DATA_VARIABLE} is not set", cure)]
    folder = Path(os.path.expanduser(named))
    if not folder.is_dir():
        return [Finding("data", "broken", f"{DATA_VARIABLE} names {folder}, which is no folder", cure)]
    return [
        _dataset(folder / task.rows.folder, ("train", task.rows.evaluation_split), (*task.text_columns, "label"))
        for task in TASKS.values()
        if isinstance(task.rows, PublishedRows) and task.rows.base_half
    ]


def _dataset(folder: Path, splits: Sequence[str], columns: Sequence[str]) -> Finding:
    name, rows = f"data {folder.name}", []
    for split in splits:
        file = folder / f"{split}.parquet"
        try:
            table = pq.ParquetFile(file)
        except FileNotFoundError:
            return Finding(name, "note", f"no {file}", f"put {split}.parquet there, columns {', '.join(columns)}")
        except (pa.ArrowException, OSError) as error:
            return Finding(name, "broken", f"{file}: {str(error).splitlines()[0]}", "replace it with a whole copy")
        absent = [column for column in columns if column not in table.schema_arrow.names]
        if absent:
            return Finding(name, "broken", f"{file} has no column {absent[0]}", f"it needs {', '.join(columns)}")
        rows.append(f"{split} {table.metadata.num_rows:,} rows")
    return Finding(name, "ok", ", ".join(rows))


def version_line() -> str:
    """The suite's version, engine and checkout, for the top of a report."""
    from zorba_core.engine.engine_version import ENGINE_VERSION
    from zorba_core.runs.environment import git_state

    commit, dirty = git_state()
    where = "" if commit is None else f", commit {commit[:12]}{' with uncommitted changes' if dirty else ''}"
    return f"zorba {zorba_core.__version__}, engine version {ENGINE_VERSION}{where}"
