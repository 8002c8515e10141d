"""Energy and noise of each block as :mod:`zorba_core.study.experiments.proxy` has stored them."""

from __future__ import annotations

from pathlib import Path

from zorba_core.checksums import read_sealed
from zorba_core.errors import InvalidInputError

FILE = Path(__file__).resolve().parents[3] / "artifacts" / "experiments" / "energies.json"
_MAX_BYTES = 1_000_000


def stored_facts(model: str, dataset: str, path: Path = FILE) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """(energies, noises) of the blocks, the largest energy 1; None where they have not been measured.

    Raises:
        InvalidInputError: a damaged file.
    """
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES} bytes")
        facts = read_sealed(path).get(f"{model}/{dataset}")
        if facts is None:
            return None
        return tuple(map(float, facts["energies"])), tuple(map(float, facts["noises"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"{path}: not a table of energies ({error}); make it again") from None
