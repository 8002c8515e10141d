"""Is everything here that the suite needs? One finding for each thing, with what to do where it is amiss.

``broken`` means that training cannot work; ``note`` that something is absent which only some things need, or is worth
knowing.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from packaging.requirements import Requirement

import zorba_core
from zorba_core.errors import ZorbaError
from zorba_core.files import as_named
from zorba_core.runs import DEFAULT_FOLDER, list_runs
from zorba_core.runs.threads import usable_cores

FindingState = Literal["ok", "note", "broken"]
_DISTRIBUTION = "zorba-core"
_LOW_BYTES, _TOO_LOW_BYTES = 2 * 10**9, 10**8


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and the way to put it right (empty when it is)."""

    name: str
    state: FindingState
    found: str
    cure: str = ""


def examine(runs_folder: str | os.PathLike[str] = DEFAULT_FOLDER) -> tuple[Finding, ...]:
    """Look at everything. Nothing is changed, and one check that fails hides no other."""
    checks: Sequence[Callable[[], list[Finding]]] = (
        _python,
        _packages,
        _torch,
        _processor,
        _base_model,
        _data,
        _chromium,
        lambda: _runs(Path(runs_folder)),
    )
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
    usable = usable_cores()
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    text = f"{usable} cores, load {busy:.1f}; zorba train uses --threads of them, 1 by default"
    if busy > usable:
        return [Finding("processor", "note", text, "other work keeps the cores busy: timings will not be good")]
    return [Finding("processor", "ok", text)]


def _base_model() -> list[Finding]:
    from zorba_core.runs.model_source import resolve_model

    try:
        folder = Path(resolve_model("opt-mini"))
        facts = json.loads((folder / "zorba.json").read_text(encoding="utf-8"))
        sha256 = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    except (ZorbaError, OSError, ValueError) as error:
        return [Finding("base model", "broken", " ".join(str(error).split()), "restore artifacts/models/opt-mini")]
    if sha256 != facts.get("weights_sha256"):
        text = f"opt-mini has the weights {sha256[:16]}, its card says {str(facts.get('weights_sha256'))[:16]}"
        return [Finding("base model", "broken", text, f"restore {folder / 'model.safetensors'} from the repository")]
    return [Finding("base model", "ok", f"opt-mini, weights {sha256[:16]} as its card says")]


def _data() -> list[Finding]:
    from zorba_core.data.sources import DATA_VARIABLE, PublishedRows
    from zorba_core.data.tasks import TASKS

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
        if isinstance(task.rows, PublishedRows) and task.rows.in_base is not None
    ]


def _dataset(folder: Path, splits: Sequence[str], columns: Sequence[str]) -> Finding:
    name, rows = f"data {folder.name}", []
    for split in splits:
        file = folder / f"{split}.parquet"
        try:
            table = pq.ParquetFile(as_named(file))
        except FileNotFoundError:
            return Finding(name, "note", f"no {file}", f"put {split}.parquet there, columns {', '.join(columns)}")
        except (pa.ArrowException, OSError) as error:
            return Finding(name, "broken", f"{file}: {str(error).splitlines()[0]}", "replace it with a whole copy")
        absent = [column for column in columns if column not in table.schema_arrow.names]
        if absent:
            return Finding(name, "broken", f"{file} has no column {absent[0]}", f"it needs {', '.join(columns)}")
        rows.append(f"{split} {table.metadata.num_rows:,} rows")
    return Finding(name, "ok", ", ".join(rows))


def _chromium() -> list[Finding]:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return [Finding("chromium", "note", "not found", "install it to save figures as PNG and for browser tests")]
    return [Finding("chromium", "ok", browser)]


def _runs(folder: Path) -> list[Finding]:
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    name, free = "runs folder", shutil.disk_usage(there).free
    text = f"{folder}, {free / 1e9:,.1f} GB free"
    if not os.access(there, os.W_OK):
        return [Finding(name, "broken", f"{there} cannot be written", "choose another with --runs-folder")]
    if free < _TOO_LOW_BYTES:
        return [Finding(name, "broken", text, "make room: a run's log must be written after every round")]
    listing = list_runs(folder)
    text += f", runs in it: {len(listing.runs)}"
    if listing.problems:
        return [Finding(name, "note", f"{text}; {listing.problems[0]}", "zorba runs names every unreadable entry")]
    if free < _LOW_BYTES:
        return [Finding(name, "note", text, "saved models need more room")]
    return [Finding(name, "ok", text)]


def version_line() -> str:
    """The suite's version, engine and checkout, for the top of a report."""
    from zorba_core.engine.engine_version import ENGINE_VERSION
    from zorba_core.runs.checkout import git_state

    commit, dirty = git_state()
    where = "" if commit is None else f", commit {commit[:12]}{' with uncommitted changes' if dirty else ''}"
    return f"zorba {zorba_core.__version__}, engine version {ENGINE_VERSION}{where}"
