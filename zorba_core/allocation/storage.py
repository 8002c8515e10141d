"""Allocations as JSON files: ``num_blocks``, ``num_clients`` and the block ids of each client."""

from __future__ import annotations

import os
from pathlib import Path

from zorba_core import files
from zorba_core.allocation.measures import Allocation
from zorba_core.allocation.problem import MAX_BLOCKS, MAX_CELLS
from zorba_core.errors import InvalidInputError, MissingDataError, first_line


def allocation_json(allocation: Allocation) -> str:
    """The content of an allocation file."""
    shape = {"num_blocks": allocation.num_blocks, "num_clients": allocation.num_clients}
    return files.to_json({**shape, "blocks_per_client": allocation.blocks_per_client})


def write_allocation(path: str | os.PathLike[str], allocation: Allocation) -> None:
    """Write an allocation file, atomically."""
    files.write_text(path, allocation_json(allocation))


def allocation_sha256(allocation: Allocation) -> str:
    """SHA-256 of the clients' block ids."""
    return files.fingerprint(allocation.blocks_per_client)


def allocation_from_file(path: str | os.PathLike[str]) -> Allocation:
    """Read an allocation file.

    Raises:
        MissingDataError: the file does not exist.
        InvalidInputError: the file is not JSON of an allocation, or too large.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise MissingDataError(f"allocation {str(path)!r} is not a file; give one that zorba allocate --save wrote")
    try:
        content = files.read_json(path)
        num_blocks, blocks_per_client = content["num_blocks"], content["blocks_per_client"]
        if not 1 <= num_blocks <= MAX_BLOCKS or not 1 <= num_blocks * len(blocks_per_client) <= MAX_CELLS:
            raise InvalidInputError(
                f"an allocation has at most {MAX_BLOCKS} blocks, {MAX_CELLS} cells, and one client or more"
            )
        return Allocation.from_blocks(blocks_per_client, num_blocks)
    except KeyError as error:
        problem = f"it has no {error}"
    except (ValueError, TypeError, AttributeError, IndexError, InvalidInputError) as error:
        problem = first_line(error)
    raise InvalidInputError(
        f"{path}: not an allocation ({problem}); write it again with zorba allocate --save"
    ) from None
