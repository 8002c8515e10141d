"""What a result was made on: enough to repeat it, and nothing that names a machine or a person."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
from typing import Any

import torch

import zorba_core
from zorba_core.engine.engine_version import ENGINE_VERSION
from zorba_core.engine.products import cpu_kernels
from zorba_core.engine.settings import Settings
from zorba_core.runs.checkout import git_state

_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow", "scipy")


def describe(settings: Settings) -> dict[str, Any]:
    """Versions, commit, device, dtype, threads and seed, for ``environment.json``."""
    commit, dirty = git_state()
    on_cuda = settings.device == "cuda"
    return {
        "zorba_core": zorba_core.__version__,
        "engine_version": ENGINE_VERSION,  # two runs of one config have the same bits only within one of these
        "git_commit": commit,
        "git_dirty": dirty,
        "python": platform.python_version(),
        **_versions(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_capability": cpu_kernels(),  # decides the last bits
        "device": torch.cuda.get_device_name() if on_cuda else "cpu",
        "dtype": settings.dtype,
        "threads": settings.threads,
        "seed": settings.seed,
    }


@functools.cache
def _versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in _PACKAGES}
