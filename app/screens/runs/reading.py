"""Runs read once for all sessions, and again when a file has changed."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from app.shared.folders import experiments_folder, short
from zorba_core.runs import DEFAULT_FOLDER
from zorba_core.study.comparison import Listing, experiment_records, folder_records


@dataclass(frozen=True)
class Source:
    """Where runs are read from, and how a program or the command would read them."""

    python: str  # a call of a function of zorba_core.study.comparison
    command: str

    @property
    def imported(self) -> str:
        return self.python.partition("(")[0]


def folder_source(folder: Path) -> Source:
    at = "" if short(folder) == str(DEFAULT_FOLDER) else short(folder)
    return Source(
        f"folder_records({at!r})" if at else "folder_records()",
        shlex.join(["zorba", "runs", *([at] if at else [])]),
    )


def experiment_source(name: str, profile: str) -> Source:
    from zorba_core.study.experiments.store import DEFAULT_ROOT  # loaded by whoever has read the tables

    asked = [name, profile]
    command = ["zorba", "runs", "--experiment", name, "--profile", profile]
    root = short(experiments_folder())
    if root != str(DEFAULT_ROOT):
        asked.append(root)
        command[2:2] = [root]
    return Source(f"experiment_records({', '.join(map(repr, asked))})", shlex.join(command))


def folder_listing(folder: Path) -> Listing:
    """The runs of a folder.

    Raises:
        OSError: the folder cannot be read.
    """
    return _listing(str(folder), _digest(folder))


def experiment_listing(name: str, profile: str) -> Listing:
    """The runs of an experiment's tables.

    Raises:
        ZorbaError: unknown, missing or damaged tables.
        OSError: they cannot be read.
    """
    modified = (experiments_folder() / name / profile / "runs.parquet").stat().st_mtime_ns
    return _experiment(name, profile, str(experiments_folder()), modified)


def _digest(folder: Path) -> str:
    """Changes with every file of a run."""
    stamps = []
    for file in sorted(folder.glob("[!.]*/*")):
        with contextlib.suppress(OSError):
            facts = file.stat()
            stamps.append((str(file), facts.st_size, facts.st_mtime_ns))
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


@st.cache_resource(max_entries=4, show_spinner="Reading runs …")
def _listing(folder: str, digest: str) -> Listing:
    del digest  # part of the cache's key only
    return folder_records(folder)


@st.cache_resource(max_entries=8, show_spinner="Reading runs …")
def _experiment(name: str, profile: str, root: str, modified: int) -> Listing:
    del modified  # part of the cache's key only
    return experiment_records(name, profile, Path(root))
