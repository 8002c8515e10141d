"""The ledger of claims: every claim of the paper beside our finding, with its evidence. No torch in here."""

from zorba_core.study.ledger.claims import (
    DEFAULT_LEDGER,
    MEANINGS,
    VERDICTS,
    Claim,
    Ledger,
    read_ledger,
    write_ledger,
)

__all__ = ["DEFAULT_LEDGER", "MEANINGS", "VERDICTS", "Claim", "Ledger", "read_ledger", "write_ledger"]
