"""Runs read once for all sessions, and again when a file has changed."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from app.shared.folders import experiments_folder, short
from zorba_core.runs import DEFAULT_FOLDER
from zorba_core.runs.notes import NOTES
from zorba_core.study.comparison import Listing, experiment_records, folder_records, with_notes


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
    """The runs of a folder, with the notes that lie beside them.

    Raises:
        OSError: the folder cannot be read.
    """
    files, notes = _signatures(folder)
    return _noted(str(folder), files, notes)


def experiment_listing(name: str, profile: str) -> Listing:
    """The runs of an experiment's tables.

    Raises:
        ZorbaError: unknown, missing or damaged tables.
        OSError: they cannot be read.
    """
    modified = (experiments_folder() / name / profile / "runs.parquet").stat().st_mtime_ns
    return _experiment(name, profile, str(experiments_folder()), modified)


@st.cache_resource(max_entries=4, show_spinner="Reading runs …")
def _listing(folder: str, signature: tuple) -> Listing:
    """The runs of a folder, read again when ``signature`` says that a file changed."""
    del signature  # part of the cache's key only
    return folder_records(Path(folder))


@st.cache_resource(max_entries=4, show_spinner=False)
def _noted(folder: str, signature: tuple, notes: tuple) -> Listing:
    """Runs need not be read again for a new label: ``notes`` is the signature of the notes alone."""
    del notes  # part of the cache's key only
    return with_notes(_listing(folder, signature))


@st.cache_resource(max_entries=8, show_spinner="Reading runs …")
def _experiment(name: str, profile: str, root: str, modified: int) -> Listing:
    del modified  # part of the cache's key only
    return experiment_records(name, profile, Path(root))


def _signatures(folder: Path) -> tuple[tuple, tuple]:
    """(of the runs' files, of their notes): each changes with what it is of."""
    if not folder.is_dir():
        return (), ()
    files, notes = [], []
    for entry in os.scandir(folder):
        if entry.is_dir() and not entry.name.startswith("."):
            stats = [(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in os.scandir(entry.path)]
            files.append((entry.name, *sorted(stat for stat in stats if stat[0] != NOTES)))
            notes += [(entry.name, *stat) for stat in stats if stat[0] == NOTES]
    return tuple(sorted(files)), tuple(sorted(notes))
