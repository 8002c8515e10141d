"""Tensors of safetensors files, read part by part: nothing of a file is held but what was asked for.

The format: eight bytes with the length of a JSON header, the header (each tensor's type, shape and place), then the
tensors' bytes. A model of several files has an index that names each tensor's file. Reading goes through ``pread`` into
memory of the caller's, since pages of a mapped file would count as the process's own.

Shapes: U rows of a matrix, H numbers of a row.
"""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from zorba_core.errors import InvalidInputError

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
PIECE = 2**20  # numbers read, converted or hashed at a time
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MOST_HEADER, _MOST_INDEX = 10**8, 10**8  # bytes; the safetensors library has the first of these limits too


@dataclass(frozen=True)
class _Entry:
    file: int  # descriptor
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int  # byte of the file


class TensorFiles:
    """The tensors of one model's safetensors files, by name.

    Raises:
        InvalidInputError: a file is missing, is no safetensors file, or has a type of numbers that no weight has.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        self._entries: dict[str, _Entry] = {}
        files: list[int] = []
        weakref.finalize(self, _close, files)
        for path in paths:
            try:
                files.append(os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
            except OSError as error:
                raise InvalidInputError(f"{os.fspath(path)}: {error.strerror}; a model's file is missing") from None
            self._entries.update(_entries_of(files[-1], Path(path)))

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entries[name].shape

    def read_into(self, name: str, target: Tensor) -> None:
        """The whole tensor into ``target``, a CPU vector of as many numbers in float32 or float64. A number that
        float32 does not have is rounded to it, as when the model is loaded whole."""
        entry = self._entries[name]
        if entry.dtype == target.dtype == torch.float32:
            _read(entry.file, _bytes_of(target), entry.start)
            return
        for first in range(0, target.numel(), PIECE):
            last = min(first + PIECE, target.numel())
            target[first:last].copy_(self._piece(entry, first, last).float())

    def pieces(self, name: str, dtype: torch.dtype) -> Iterator[Tensor]:
        """The tensor's numbers, in pieces of a vector."""
        entry = self._entries[name]
        for first in range(0, math.prod(entry.shape), PIECE):
            yield self._piece(entry, first, min(first + PIECE, math.prod(entry.shape))).float().to(dtype)

    def rows(self, name: str, index_U: Tensor, dtype: torch.dtype) -> Tensor:
        """Some rows of a matrix, in the given order: (U, H)."""
        entry = self._entries[name]
        width = math.prod(entry.shape[1:])
        rows_UH = torch.empty((len(index_U), width), dtype=dtype)
        breaks = (index_U.diff() != 1).nonzero().flatten().add_(1).tolist()
        for first, last in pairwise([0, *breaks, len(index_U)]):  # rows that stand together are read together
            row = int(index_U[first]) if last > first else 0
            values = self._piece(entry, row * width, (row + last - first) * width)
            rows_UH[first:last] = values.float().view(-1, width)
        return rows_UH.view(len(index_U), *entry.shape[1:])

    def _piece(self, entry: _Entry, first: int, last: int) -> Tensor:
        if not 0 <= first <= last <= math.prod(entry.shape):
            raise IndexError(f"numbers {first} to {last} of a tensor of shape {entry.shape}")
        values = torch.empty(last - first, dtype=entry.dtype)
        _read(entry.file, _bytes_of(values), entry.start + first * entry.dtype.itemsize)
        return values


def paths_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The safetensors files of a model's folder: one, or where that is not there those that its index names.

    Raises:
        InvalidInputError: there is none, or the index cannot be read or names a file outside the folder.
    """
    folder = Path(folder)
    index = folder / INDEX
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if not index.is_file():
        raise InvalidInputError(
            f"model folder {folder}: it has no {SINGLE} and no {INDEX}; weights must be saved as safetensors"
        )
    try:
        if index.stat().st_size > _MOST_INDEX:
            raise ValueError("it is larger than any index")
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        if not names or any(Path(name).name != name or name in ("", "..") for name in names):
            raise ValueError("it names files outside the folder")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise InvalidInputError(f"{index} cannot be read: {error}") from None
    return [folder / name for name in names]


def write_tensors(
    path: str | os.PathLike[str], shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, pieces: Iterator[Tensor]
) -> None:
    """Write a safetensors file without holding a tensor: ``pieces`` are the numbers of the tensors, one after another
    in the order of ``shapes``, cut anywhere."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        end = at + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for piece in pieces:
            file.write(_bytes_of(piece))


def _entries_of(file: int, path: Path) -> dict[str, _Entry]:
    size = os.fstat(file).st_size
    try:
        length = int.from_bytes(os.pread(file, 8, 0), "little")
        if not 2 <= length <= min(size - 8, _MOST_HEADER):
            raise ValueError("its header has an impossible length")
        header = json.loads(os.pread(file, length, 8))
        header.pop("__metadata__", None)
        entries = {}
        for name, value in header.items():
            if value["dtype"] not in _DTYPES:  # buffers of old checkpoints; asked for, they are missing
                continue
            entry = _Entry(file, _DTYPES[value["dtype"]], tuple(map(int, value["shape"])), 8 + length)
            start, stop = map(int, value["data_offsets"])
            if min(entry.shape, default=1) < 0 or stop - start != math.prod(entry.shape) * entry.dtype.itemsize:
                raise ValueError(f"the size of {name} does not fit its shape")
            if not 0 <= start <= stop <= size - 8 - length:
                raise ValueError(f"{name} lies outside the file")
            entries[name] = _Entry(file, entry.dtype, entry.shape, entry.start + start)
        return entries
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInputError(f"{path} is no safetensors file that can be read: {error}") from None


def _bytes_of(vector: Tensor) -> memoryview:
    return memoryview(vector.contiguous().view(torch.uint8).numpy() if vector.numel() else np.empty(0, np.uint8))


def _read(file: int, target: memoryview, start: int) -> None:
    done = 0
    while done < len(target):
        got = os.preadv(file, [target[done:]], start + done)
        if got == 0:
            raise InvalidInputError("a model's file became shorter while it was read; put it back and resume")
        done += got


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)
