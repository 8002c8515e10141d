"""What a federated run sent, beside what the paper counts: from its ``wire.json`` and summary. No torch.

payload   the records as Flower serialises them: our numbers, and the names of their fields
framed    with Flower's metadata, headers and object trees; HTTP and TLS come on top
compact   the same numbers in the fixed-width form of :mod:`zorba_core.planning.message_sizes`
paper     numbers that the paper's text counts (P shared seeds once, which no client needs here; then Q seeds and Q
          averages down and Q scalars up a round)
"""

from __future__ import annotations

from typing import Any

from zorba_core.checksums import read_sealed
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs import Run

WIRE = "wire.json"
_MAX_BYTES = 64_000_000
# Our messages, and the kinds in the plain count that each stands for. The averages of a round travel with the next
# round's task, or with the catch-up after the last.
_COUNTED = {
    "hello down": ("setup",),
    "train down": ("plan", "aggregate"),
    "train up": ("report",),
}


def wire_report(run: Run) -> dict[str, Any]:
    """Rows by message, and totals a round and client.

    Raises:
        MissingDataError: the run was not federated over Flower, or its wire was not metered to the end.
        InvalidInputError: the file of what was metered is damaged.
    """
    path = run.path / WIRE
    if not path.is_file() or path.stat().st_size > _MAX_BYTES:
        raise MissingDataError(f"{run.path}: it has no {WIRE}; only runs finished over Flower are metered")
    try:
        return _report(run, read_sealed(path))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, ZeroDivisionError, RecursionError):
        raise InvalidInputError(f"{path}: not what a federated run metered; the file is damaged") from None


def _report(run: Run, metered: dict[str, Any]) -> dict[str, Any]:
    counted = {row["kind"]: row for row in run.summary["communication"]["by_message"]}
    rows = []
    for name, metered_row in metered["by_message"].items():
        kinds = [counted[kind] for kind in _COUNTED.get(name, ())]
        rows.append(
            {
                "message": name,
                "messages": int(metered_row["messages"]),
                "payload_bytes": int(metered_row["payload"]),
                "framed_bytes": int(metered_row["framed"]),
                "compact_bytes": sum(kind["wire_bytes"] for kind in kinds),
                "paper_numbers": sum(kind["paper"] for kind in kinds),
            }
        )
    trained = [exchange for exchange in metered["exchanges"] if "train" in exchange["kinds"]]
    answers = [answer for exchange in trained for answer in exchange["answers"]]
    return {
        "messages": rows,
        "per_client_and_round": {
            direction: {
                count: row[count] / row["messages"]
                for row in rows
                if row["message"] == f"train {direction}"
                for count in ("payload_bytes", "framed_bytes", "compact_bytes", "paper_numbers")
            }
            for direction in ("down", "up")
        },
        "seconds": {
            "round": _median([exchange["seconds"] for exchange in trained]),
            "client": _median([answer["client_s"] for answer in answers if "client_s" in answer]),
            "of_it_computing": _median([answer["compute_s"] for answer in answers if "compute_s" in answer]),
            "of_it_applying_averages": _median([answer["apply_s"] for answer in answers if "apply_s" in answer]),
            "of_it_writing_the_replica": _median([answer["keep_s"] for answer in answers if "keep_s" in answer]),
        },
    }


def _median(values: list[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None
