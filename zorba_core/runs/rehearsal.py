"""A small model with as many blocks as a large one has, to rehearse the large one's plan: ``opt-mini-24``.

opt-mini's blocks are repeated in their order. A block that stands r times adds an r-th of its output each time, so the
stack computes nearly what opt-mini does, in more and smaller steps, and knows what it knew; where there
are fewer blocks than opt-mini's twelve, some are left out. The folder is made once, by the contents of opt-mini, in
the cache (:mod:`zorba_core.data.cache`). No torch here.

Shapes: M blocks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from zorba_core.checksums import ChecksumError, check_sums, write_sums
from zorba_core.data.cache import cache_folder
from zorba_core.errors import InvalidInputError, one_line
from zorba_core.files import atomic_folder

BASE = "opt-mini"
MOST_BLOCKS = 128
_NAME = re.compile(rf"{BASE}-([1-9]\d{{0,2}})")
_BLOCK = re.compile(r"(.*\blayers\.)(\d+)(\..+)")
_ADDS = (".self_attn.out_proj.", ".fc2.")  # what a block adds to the stream of states
_WEIGHTS, _CONFIG = "model.safetensors", "config.json"


def rehearsal_blocks(name: str) -> int | None:
    """M of ``opt-mini-M``; None for any other name.

    Raises:
        InvalidInputError: more blocks than are made.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if int(match[1]) > MOST_BLOCKS:
        raise InvalidInputError(f"{name} would have {match[1]} blocks; a rehearsal model has up to {MOST_BLOCKS}")
    return int(match[1])


def rehearsal_name(num_blocks: int, base_blocks: int = 12) -> str:
    """The bundled model with so many blocks."""
    return BASE if num_blocks == base_blocks else f"{BASE}-{num_blocks}"


def rehearsal_folder(num_blocks: int, base: Path) -> Path:
    """The folder of the model with ``num_blocks`` blocks made of the model in ``base``, written if it is not there.

    Raises:
        ChecksumError: the base is not what its checksums say.
        InvalidInputError: it cannot be read.
    """
    check_sums(base)
    made_of = hashlib.sha256((base / _CONFIG).read_bytes())
    made_of.update((base / _WEIGHTS).read_bytes())
    folder = _cache() / made_of.hexdigest()[:12] / f"{BASE}-{num_blocks}"
    if not _is_whole(folder):
        try:
            shutil.rmtree(folder, ignore_errors=True)
            with atomic_folder(folder) as temporary:
                _write(num_blocks, base, temporary)
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            raise InvalidInputError(f"model folder {base} cannot be read: {one_line(error)}") from None
        except (OSError, InvalidInputError):
            if not _is_whole(folder):  # another process was as quick
                raise
    return folder


def _is_whole(folder: Path) -> bool:
    """Whether it is there as it was written; one of an earlier version, which had no checksums, is made again."""
    try:
        return check_sums(folder)
    except ChecksumError:
        return False


def origins(num_blocks: int, base_blocks: int) -> list[int]:
    """Which block of the base each block is a copy of: evenly, in order."""
    return [block * base_blocks // num_blocks for block in range(num_blocks)]


def _write(num_blocks: int, base: Path, folder: Path) -> None:
    config = json.loads((base / _CONFIG).read_text(encoding="utf-8"))
    of_block = origins(num_blocks, int(config["num_hidden_layers"]))
    tensors, made = load_file(base / _WEIGHTS), {}
    for name, tensor in tensors.items():
        match = _BLOCK.fullmatch(name)
        if match is None:
            made[name] = tensor
            continue
        copies = [block for block, origin in enumerate(of_block) if origin == int(match[2])]
        share = 1.0 / len(copies) if copies and any(part in name for part in _ADDS) else 1.0
        for block in copies:
            made[f"{match[1]}{block}{match[3]}"] = np.ascontiguousarray(tensor * tensor.dtype.type(share))
    save_file(made, folder / _WEIGHTS, metadata={"format": "pt"})
    text = json.dumps({**config, "num_hidden_layers": num_blocks}, indent=2, sort_keys=True)
    (folder / _CONFIG).write_text(text + "\n", encoding="utf-8")
    for path in base.iterdir():
        if path.name.startswith(("tokenizer", "generation_config", "special_tokens", "vocab", "merges")):
            shutil.copyfile(path, folder / path.name)
    write_sums(folder)


def _cache() -> Path:
    """Where models are made: the cache, or the system's folder for temporary files where there is none."""
    folder = cache_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            (folder / "models").mkdir(parents=True, exist_ok=True)
            if os.access(folder / "models", os.W_OK | os.X_OK):
                return folder / "models"
    return Path(tempfile.gettempdir()) / f"zorba-models-{os.getuid() if hasattr(os, 'getuid') else 0}"
