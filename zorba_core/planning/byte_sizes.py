"""Amounts of memory as people write them: ``1GiB``, ``750 MB``, ``1.5g``."""

from __future__ import annotations

import re

from zorba_core.errors import InvalidInputError, in_short

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
_WRITTEN = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")


def bytes_of(text: str) -> int:
    """The bytes of an amount: a number and B, KB, MB, GB, TB (powers of 1000), or KiB, MiB, GiB, TiB or K, M, G, T
    (powers of 1024).

    Raises:
        InvalidInputError: it is no such amount, or none.
    """
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2].lower() not in _UNITS or not (size := int(float(match[1]) * _UNITS[match[2].lower()])):
        raise InvalidInputError(f"{in_short(text)} is no amount of memory; write it like 1GiB, 750MB or 2.5GiB")
    return size


def in_mib(num_bytes: float) -> str:
    """``"1280 MiB"``, rounded up, so that an amount given back is enough."""
    return f"{-(-int(num_bytes) // 2**20)} MiB"
