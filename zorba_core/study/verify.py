"""Read everything below a folder of artifacts and compare it with its checksums: runs, tables, ledger, models, JSON.

A finding for each file or run folder. ``broken``: it cannot be read, or holds other numbers than were written; the cure
says how to make it again. ``note``: it reads, and carries no checksum or an environment that was edited.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from zorba_core.checksums import SUMS, check_sums, parse_json, sha256_of, unsealed
from zorba_core.data.checked_tables import UNREADABLE, has_checksum, read_table
from zorba_core.errors import InvalidInputError, MissingDataError, ZorbaError, one_line
from zorba_core.runs import CONFIG, SUMMARY, TRAJECTORY, read_request, read_run
from zorba_core.runs.folder import ALLOCATION, METRICS, changed_environment
from zorba_core.runs.trajectory import lacking, read_trajectory
from zorba_core.study.doctor import Finding
from zorba_core.study.ledger.claims import read_ledger

_MAX_JSON_BYTES = 40_000_000  # the vocabularies of the largest models have 35 MB
_MAX_ROWS = 10_000_000
_LEDGER, _CARD = "ledger.json", "zorba.json"
_NO_CHECKSUM = "reads; it has no checksum"


def verify_folder(folder: str | os.PathLike[str]) -> tuple[Finding, ...]:
    """One finding for each run folder, model folder, table and JSON file below ``folder``. Nothing is changed.

    Raises:
        MissingDataError: no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingDataError(f"{folder} is no folder; name the one whose files are to be checked with --artifacts")
    return tuple(_checked(folder, *work) for work in _works(folder))


def _works(folder: Path) -> Iterator[tuple[Path, Callable[[Path], str], str]]:
    """(what to check, the check, how to make it again)."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        path, inside = Path(place), set(names)
        of_run = {name for name in (CONFIG, ALLOCATION, METRICS, SUMMARY, TRAJECTORY) if name in inside}
        if len(of_run) > 1:
            yield path, _run, "train it again; its config.json, or zorba runs, has the settings"
            inside -= of_run | {"environment.json"}
        if SUMS in inside:
            yield path, _sums, "zorba make-base, zorba export or zorba replay --save writes a model"
            inside -= {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
        for name in sorted(inside):
            file = path / name
            if name.endswith(".parquet"):
                experiment, profile = file.parent.parent.name, file.parent.name
                yield file, _table, f"remove it and run zorba experiment {experiment} --profile {profile}"
            elif name == _LEDGER:
                yield file, _ledger, "zorba report"
            elif name == _CARD:
                yield file, _card, "zorba make-base"
            elif name.endswith(".json"):
                yield file, _json, _maker(folder, file)


def _maker(folder: Path, file: Path) -> str:
    """The command that the folder's README names beside the file: the last cell of its row."""
    readme, nowhere = folder / "README.md", "artifacts/README.md names the command that makes it"
    if not readme.is_file():
        return nowhere
    for row in readme.read_text(encoding="utf-8", errors="replace").splitlines():
        cells = [cell.strip() for cell in row.strip().strip("|").split(" | ")]
        if len(cells) > 2 and any(name.rpartition("/")[2] == file.name for name in cells[0].split("`")[1::2]):
            return cells[-1]
    return nowhere


def _checked(folder: Path, path: Path, check: Callable[[Path], str], again: str) -> Finding:
    name = str(path.relative_to(folder)) if path != folder else str(path)
    try:
        note = check(path)
    except (ZorbaError, *UNREADABLE) as error:
        return Finding(name, "broken", one_line(error), f"restore it from the repository or a copy, or: {again}")
    return Finding(name, "note", note, "") if note else Finding(name, "ok", "as it was written")


def _run(path: Path) -> str:
    run, request = read_run(path), read_request(path)
    if not (path / TRAJECTORY).is_file():
        return "reads; it has no log, so its rounds cannot be replayed"
    trajectory = read_trajectory(path / TRAJECTORY)
    if trajectory.header is not None and changed_environment(request, trajectory.header):
        return "its environment.json was changed since the run began"
    lacks = lacking(trajectory, run.summary, int(run.metrics["round"].max()) if len(run.metrics) else 0)
    if lacks:
        raise InvalidInputError(f"the end of its {TRAJECTORY} is damaged: {lacks}")
    last = trajectory.evaluations[-1] if trajectory.evaluations else None
    stated = run.summary.get("weights_sha256")
    if run.finished and last is not None and stated not in (None, last.weights_sha256):
        raise InvalidInputError("the weights of its summary are not those of the log's last evaluation")
    if run.finished and len(run.metrics) and not has_checksum(path / METRICS):
        return f"reads; its {METRICS} has no checksum"
    if (path / "model").is_dir() and not check_sums(path / "model"):
        return "its saved model has no checksum beside it"
    return "" if run.finished else "unfinished, as far as it came it reads"


def _sums(path: Path) -> str:
    return "" if check_sums(path) else _NO_CHECKSUM


def _table(path: Path) -> str:
    table: pa.Table = read_table(path, _MAX_ROWS)
    return "" if has_checksum(path) or not table.num_rows else _NO_CHECKSUM


def _ledger(path: Path) -> str:
    read_ledger(path)
    return _noted(path)


def _card(path: Path) -> str:
    content = _object(path)
    stated, weights = content.get("weights_sha256"), path.parent / "model.safetensors"
    if not weights.is_file():
        raise InvalidInputError(f"{weights} is missing")
    if stated != sha256_of(weights):
        raise InvalidInputError(f"{weights} is not the file whose fingerprint the card has")
    return ""


def _json(path: Path) -> str:
    _object(path)
    return _noted(path)


def _noted(path: Path) -> str:
    return "" if '"checksum": "sha256:' in path.read_text(encoding="utf-8")[-200:] else _NO_CHECKSUM


def _object(path: Path) -> dict:
    if not path.is_file():  # a pipe would be waited for, a device has no end
        raise InvalidInputError("something else than a file")
    if (size := path.stat().st_size) > _MAX_JSON_BYTES:
        raise InvalidInputError(f"{size:,} bytes is too large for a JSON file (limit {_MAX_JSON_BYTES:,})")
    try:
        text = path.read_text(encoding="utf-8")
        content = parse_json(text)
    except ValueError:
        raise InvalidInputError("not JSON") from None
    return unsealed(content, text) if isinstance(content, dict) else {}
