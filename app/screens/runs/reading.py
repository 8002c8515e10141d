"""Runs read once for all sessions, and again when a file has changed."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from app.shared.folders import experiments_folder, short
from zorba_core.runs import DEFAULT_FOLDER, index
from zorba_core.study.comparison import Listing, experiment_records
from zorba_core.study.comparison.run_folders import folder_records

Stamps = dict[str, index.Stamp]


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
    now = index.stamps(folder) if folder.is_dir() else {}
    return _listing(str(folder), _digest(now), now)


def experiment_listing(name: str, profile: str) -> Listing:
    """The runs of an experiment's tables.

    Raises:
        ZorbaError: unknown, missing or damaged tables.
        OSError: they cannot be read.
    """
    modified = (experiments_folder() / name / profile / "runs.parquet").stat().st_mtime_ns
    return _experiment(name, profile, str(experiments_folder()), modified)


# Streamlit takes longer to make a key of 60,000 stamps than a digest takes; what begins with _ is no part of a key.
@st.cache_resource(max_entries=4, show_spinner="Reading runs …")
def _listing(folder: str, digest: str, _now: Stamps) -> Listing:
    """The runs of a folder, read again when ``digest`` says that a file changed."""
    return folder_records(Path(folder), _now)


@st.cache_resource(max_entries=8, show_spinner="Reading runs …")
def _experiment(name: str, profile: str, root: str, modified: int) -> Listing:
    del modified  # part of the cache's key only
    return experiment_records(name, profile, Path(root))


def _digest(now: Stamps) -> str:
    return hashlib.sha256(repr(now).encode()).hexdigest()
