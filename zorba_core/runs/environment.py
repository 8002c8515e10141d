"""What a result was made on: enough to repeat it, and nothing that names a machine or a person."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch

from zorba_core.engine import ENGINE_VERSION
from zorba_core.engine.settings import Settings

_CHANGES = ("status", "--porcelain", "--", ".", ":(exclude)artifacts/experiments")
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow", "scipy")


def describe(settings: Settings) -> dict[str, Any]:
    """Versions, commit, device and seed, for a run's config."""
    commit, dirty = git_state()
    on_cuda = settings.device == "cuda"
    return {
        "zorba_core": importlib.metadata.version("zorba-core"),
        "engine_version": ENGINE_VERSION,  # two runs of one config have the same bits only within one of these
        "git_commit": commit,
        "git_dirty": dirty,
        "python": platform.python_version(),
        **_versions(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_capability": _cpu_kernels(),  # decides the last bits
        "device": torch.cuda.get_device_name() if on_cuda else "cpu",
        "threads": torch.get_num_threads(),
        "seed": settings.seed,
    }


@functools.cache
def _cpu_kernels() -> str:
    """What products are made by on this CPU: ``AVX512``, or ``AVX512 of AuthenticAMD`` where MKL takes other kernels
    than on Intel's."""
    capability, cpus = torch.backends.cpu.get_cpu_capability(), Path("/proc/cpuinfo")
    maker = re.search(r"^vendor_id\s*:\s*(\S+)", cpus.read_text("utf-8") if cpus.is_file() else "", re.MULTILINE)
    return capability if maker is None or maker[1] == "GenuineIntel" else f"{capability} of {maker[1]}"


@functools.cache
def _versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in _PACKAGES}


def git_state() -> tuple[str | None, bool | None]:
    """(commit, has uncommitted changes) of the checkout this package runs from; (None, None) when it is in none.

    Tables of experiments do not count as changes: a sweep writes them while it runs.
    """
    root = Path(__file__).resolve().parents[2]
    top = git_output(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root:  # installed below some other project's checkout
        return None, None
    commit, changes = git_output(root, "rev-parse", "HEAD"), git_output(root, *_CHANGES)
    return commit, None if changes is None else bool(changes)


def git_output(root: Path, *arguments: str) -> str | None:
    """What git prints of the checkout at ``root``; None where there is no git, or it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
