"""The blocks of a model in files: which version of each is where, and how it is brought up to date.

A block's numbers come from the model's own files, which are only read, until an update is due. Updates are collected
and applied when the block is read next; the result is then written to a file of its own in the scratch folder. So each
block is read and written once a round.

A scratch file says by a fingerprint which updates, from the base on, its numbers have had. Every update has an
identity (directions, coefficients, rate), and the fingerprints form a chain. So a run that is resumed repeats its log
without touching a weight, and applies to each block what its file lacks. A file is written under another name and
renamed: a process killed while it writes leaves the version before. A file that is torn after all (a machine that lost
its power) has the wrong checksum; the block is then rebuilt from the base and all updates, as is one whose fingerprint
is not of this chain. Numbers that are read again are compared with what was read or written before, since nothing else
would notice that a file has changed under a run.

Shapes: M blocks, D_m parameters of block m.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from zorba_core.errors import LostBlockError, RunError
from zorba_core.files import check_own_folder, create_new
from zorba_core.runs.streaming.tensor_files import TensorFiles

_OWN = re.compile(r"block-[0-9]+(\.writing)?")
_REBUILT = "resume the run, which computes lost blocks again and ends with the same bits"
_CURES = {errno.ENOENT: _REBUILT, errno.ENOTDIR: _REBUILT, errno.EISDIR: "move it away and resume the run"}
_MAGIC = b"ZORBABLK"
_HEADER = 64  # bytes: magic, fingerprint (32), checksum (4), numbers (8), and room


class Change(Protocol):
    """An update of one block's weights, in place."""

    identity: bytes  # equal for two changes exactly when they do the same

    def __call__(self, weights: Tensor) -> None: ...


@dataclass(eq=False)
class _StoredBlock:
    names: tuple[str, ...]  # of its tensors, in the order of its vector
    sizes: tuple[int, ...]
    latest: bytes  # the fingerprint of its numbers with all changes
    waiting: list[tuple[Change, bytes]] = field(default_factory=list)  # each with the fingerprint after it
    scratch: bool = False  # are the stored numbers those of the scratch file, which this process knows to be whole?
    unknown: bool = False  # is there a scratch file that no version of this block was compared with yet?
    checksum: int | None = None  # of the stored numbers; None: they have not been read yet

    @property
    def size(self) -> int:
        return sum(self.sizes)


class BlockStore:
    """Reads blocks one at a time, the next one ahead in a thread.

    Args:
        tensors: for each block the names and sizes of its tensors in ``files``, in the order of its vector.
        prefetch: read ahead, which takes the memory of one more block.
        watch: called before memory for a block is taken, and after.
    """

    def __init__(
        self,
        files: TensorFiles,
        tensors: Sequence[Sequence[tuple[str, int]]],
        dtype: torch.dtype,
        *,
        prefetch: bool = True,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self._files, self.dtype, self.prefetch, self.watch = files, dtype, prefetch, watch
        self._blocks = []
        for m, parts in enumerate(tensors):
            names, sizes = zip(*parts, strict=True)
            base = hashlib.sha256(f"{m} {dtype} {names} {sizes}".encode()).digest()
            self._blocks.append(_StoredBlock(names, sizes, base))
        self.folder: Path | None = None
        self._free: list[Tensor] = []
        self._ahead: tuple[int, Future[Tensor]] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="blocks")
        self._order = tuple(range(len(self._blocks)))

    @property
    def sizes_M(self) -> tuple[int, ...]:
        return tuple(block.size for block in self._blocks)

    def use_scratch(self, folder: Path) -> None:
        """Keep changed blocks in this folder, and take from it what an earlier process left there.

        Raises:
            InvalidInputError: it is a link, which may lead to files of others, or no folder.
        """
        self.drop_read_ahead()
        check_own_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        for m, block in enumerate(self._blocks):
            block.unknown = self._path(m).is_file()

    @property
    def has_scratch(self) -> bool:
        """Did an earlier process leave files that were not looked at yet?"""
        return any(block.unknown for block in self._blocks)

    def change(self, block: int, change: Change) -> None:
        """An update that is due from now on."""
        this = self._blocks[block]
        this.latest = hashlib.sha256(this.latest + change.identity).digest()
        this.waiting.append((change, this.latest))

    @contextmanager
    def in_order(self, blocks: Sequence[int]) -> Iterator[None]:
        """Within the context blocks are visited in that order: what is read ahead follows it."""
        before, self._order = self._order, tuple(blocks)
        try:
            yield
        finally:
            self._order = before

    def take(self, block: int) -> Tensor:
        """The block's numbers, up to date, (D_m,): the caller's until it gives them back."""
        self.watch()
        weights = self._stored(block)
        this = self._blocks[block]
        if this.waiting:
            for change, _ in this.waiting:
                change(weights)
            this.waiting.clear()
            self._write(block, weights)
        self.watch()
        following = self._order[(self._order.index(block) + 1) % len(self._order)]
        if self.prefetch and following != block:
            self._ahead = following, self._reader.submit(self._read, following)
        return weights

    def give_back(self, weights: Tensor) -> None:
        """Memory that ``take`` gave, no longer used."""
        if len(self._free) < 2:
            self._free.append(weights)

    def drop_read_ahead(self) -> None:
        """Hold no block: what was read ahead is forgotten, and memory returned."""
        if self._ahead is not None:
            self._ahead[1].cancel()
            self._ahead = None
        self._free.clear()

    def close(self) -> None:
        """No more reading; the scratch folder stays."""
        self.drop_read_ahead()
        self._reader.shutdown(cancel_futures=True)

    def remove_scratch(self) -> None:
        """Remove the scratch files; the weights are those of the base again, and nothing is to be read from now on."""
        if self.folder is not None and not self.folder.is_symlink():
            for path in _own_files(self.folder):
                path.unlink(missing_ok=True)
            try:
                self.folder.rmdir()
            except OSError:  # something that is not ours lies in it
                return

    def _stored(self, block: int) -> Tensor:
        try:
            weights = self._read_ahead(block)
            return self._read(block) if weights is None else weights
        except OSError as error:
            path = Path(error.filename or "")
            if self.folder is None or path.parent != self.folder:
                raise
            raise LostBlockError(f"{path} cannot be read ({error.strerror}); {_REBUILT}") from None

    def _read_ahead(self, block: int) -> Tensor | None:
        if self._ahead is None:
            return None
        (ahead, future), self._ahead = self._ahead, None
        if ahead == block:
            return future.result()
        if not future.cancel():
            self.give_back(future.result())
        return None

    def _buffer(self, size: int) -> Tensor:
        while self._free:
            buffer = self._free.pop()
            if buffer.untyped_storage().nbytes() >= size * self.dtype.itemsize:
                return torch.empty(0, dtype=self.dtype).set_(buffer.untyped_storage(), 0, (size,))
        return torch.empty(max(self.sizes_M), dtype=self.dtype)[:size]

    def _read(self, block: int) -> Tensor:
        this = self._blocks[block]
        weights = self._buffer(this.size)
        if this.unknown:
            this.unknown = False
            self._recognise(block, weights)
            if this.scratch:
                return weights
        if this.scratch:
            with open(self._path(block), "rb") as file:
                file.seek(_HEADER)
                _fill(file, weights, self._path(block))
        else:
            start = 0
            for name, size in zip(this.names, this.sizes, strict=True):
                self._files.read_into(name, weights[start : start + size])
                start += size
        checksum = _checksum(weights)
        if this.checksum not in (None, checksum):
            what = f"{self._path(block)} has" if this.scratch else "the model's files have"
            raise LostBlockError(f"{what} changed under the run; resume it when nothing else writes there")
        this.checksum = checksum
        return weights

    def _recognise(self, block: int, weights: Tensor) -> None:
        """Take a scratch file of an earlier process, if it is whole and of this chain."""
        this = self._blocks[block]
        with open(self._path(block), "rb") as file:
            header = file.read(_HEADER)
            if len(header) < _HEADER or header[:8] != _MAGIC or int.from_bytes(header[44:52], "little") != this.size:
                return
            fingerprint = header[8:40]
            versions = [fingerprint_after for _, fingerprint_after in this.waiting]
            if fingerprint not in versions:
                return
            try:
                _fill(file, weights, self._path(block))
            except LostBlockError:
                return
        checksum = _checksum(weights)
        if checksum != int.from_bytes(header[40:44], "little"):
            return
        this.checksum = checksum
        del this.waiting[: versions.index(fingerprint) + 1]
        this.scratch = True

    def _write(self, block: int, weights: Tensor) -> None:
        if self.folder is None:  # nobody said where: as long as this store lives
            self._own_folder = tempfile.TemporaryDirectory(prefix="zorba-blocks-")
            self.folder = Path(self._own_folder.name)
        this, path = self._blocks[block], self._path(block)
        checksum = _checksum(weights)
        header = _MAGIC + this.latest + checksum.to_bytes(4, "little") + this.size.to_bytes(8, "little")
        writing = path.with_suffix(".writing")
        try:
            with open(writing, "wb", opener=create_new) as file:
                file.write(header.ljust(_HEADER, b"\0"))
                file.write(_bytes_of(weights))
            os.replace(writing, path)
        except OSError as error:
            place = writing if writing.is_dir() else path
            cure = _CURES.get(error.errno, "make room and resume the run")
            failed = LostBlockError if error.errno == errno.ENOENT else RunError  # the folder is gone
            raise failed(f"{place} cannot be written ({error.strerror}); {cure}") from None
        this.scratch, this.unknown, this.checksum = True, False, checksum

    def _path(self, block: int) -> Path:
        return self.folder / f"block-{block}"


def remove_unfinished(folder: Path) -> None:
    """Remove what a process was killed over writing: it may be as large as a block."""
    if not folder.is_symlink():
        for path in _own_files(folder):
            if path.suffix:
                path.unlink(missing_ok=True)


def _own_files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("block-*") if _OWN.fullmatch(path.name) and not path.is_dir()]


def _fill(file, weights: Tensor, path: Path) -> None:
    target = _bytes_of(weights)
    if file.readinto(target) != len(target):
        raise LostBlockError(f"{path} is shorter than its block; remove it and resume the run")


def _checksum(weights: Tensor) -> int:
    return zlib.crc32(_bytes_of(weights))


def _bytes_of(weights: Tensor) -> memoryview:
    return memoryview(weights.view(torch.uint8).numpy())
