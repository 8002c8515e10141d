"""Runs read once for all sessions, and again when a file has changed."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import streamlit as st

from app.shared.folders import experiments_folder
from zorba_core.study.comparison import Listing, experiment_records, folder_records


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
