"""The checkout that this package runs from, as git sees it. No torch here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import zorba_core

_CHANGES = ("status", "--porcelain", "--", ".", ":(exclude)artifacts/experiments")


def git_state() -> tuple[str | None, bool | None]:
    """(commit, has uncommitted changes) of the checkout this package runs from; (None, None) when it is in none.

    Tables of experiments do not count as changes: a sweep writes them while it runs.
    """
    root = Path(zorba_core.__file__).resolve().parent.parent
    top = git_says(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root:  # installed below some other project's checkout
        return None, None
    commit, changes = git_says(root, "rev-parse", "HEAD"), git_says(root, *_CHANGES)
    return commit, None if changes is None else bool(changes)


def git_says(root: Path, *arguments: str) -> str | None:
    """What git prints of the checkout at ``root``; None where there is no git, or it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
