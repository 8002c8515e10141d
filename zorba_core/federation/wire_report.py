"""What a federated run sent, beside what the paper counts: from its ``wire.json`` and summary. No torch.

payload   the records as Flower serialises them: our numbers, and the names of their fields
framed    with Flower's metadata, headers and object trees; HTTP and TLS come on top
compact   the same numbers in the fixed-width form of :mod:`zorba_core.planning.communication`
paper     numbers that the paper's text counts (P shared seeds once, which no client needs here; then Q seeds and Q
          averages down and Q scalars up a round)
"""

from __future__ import annotations

from typing import Any

from zorba_core.checksums import read_sealed
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs import Run

WIRE = "wire.json"
_MAX_BYTES = 64_000_000  # of 50 clients' answers in 5,000 rounds; what is read takes up to 50 times as much
_MOST = 2**53  # of bytes and seconds; NaN is not below it
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
    try:
        return _report(run, read_sealed(path, _MAX_BYTES))
    except FileNotFoundError:
        raise MissingDataError(f"{run.path}: it has no {WIRE}; only runs finished over Flower are metered") from None
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, ZeroDivisionError, RecursionError):
        raise InvalidInputError(
            f"{path}: not what a federated run metered; the file is damaged; restore it from a copy"
        ) from None


def _report(run: Run, metered: dict[str, Any]) -> dict[str, Any]:
    counted = {row["kind"]: row for row in run.summary["communication"]["by_message"]}
    rows = []
    for name, metered_row in metered["by_message"].items():
        kinds = [counted[kind] for kind in _COUNTED.get(name, ())]
        rows.append(
            {
                "message": name,
                "messages": _whole(metered_row["messages"]),
                "payload_bytes": _whole(metered_row["payload"]),
                "framed_bytes": _whole(metered_row["framed"]),
                "compact_bytes": sum(_whole(kind["wire_bytes"]) for kind in kinds),
                "paper_numbers": sum(_whole(kind["paper"]) for kind in kinds),
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
            "client": _median_of(answers, "client_s"),
            "of_it_computing": _median_of(answers, "compute_s"),
            "of_it_applying_averages": _median_of(answers, "apply_s"),
            "of_it_writing_the_replica": _median_of(answers, "keep_s"),
        },
    }


def _whole(value: Any) -> int:
    """
    Raises:
        TypeError: it is no count.
    """
    if type(value) not in (int, float) or not 0 <= value <= _MOST or value != int(value):
        raise TypeError
    return int(value)


def _median_of(answers: list[dict[str, Any]], part: str) -> float | None:
    """Of the clients that measured the part: null is what they sent as no number."""
    return _median([answer[part] for answer in answers if answer.get(part) is not None])


def _median(values: list[Any]) -> float | None:
    """
    Raises:
        TypeError: one of them is no number of seconds.
    """
    if not all(type(value) in (int, float) and 0 <= value <= _MOST for value in values):
        raise TypeError
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None
