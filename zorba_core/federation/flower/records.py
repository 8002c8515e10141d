"""Payloads as Flower's records, and back.

Down, everything is one ``ConfigRecord``. Up, numbers are a ``MetricRecord`` (its float64 lists keep every bit) and text
is a ``ConfigRecord``. Records are made afresh for each message: an instance shared between two would be emptied by the
first. What comes in is taken as plain values only; other kinds of record are refused.
"""

from __future__ import annotations

from flwr.app import ConfigRecord, MetricRecord, RecordDict

from zorba_core.federation.messages import MessageError, Payload

_TEXTS, _NUMBERS = "zorba", "zorba-numbers"
_WHAT = "what"


def to_records(payload: Payload, *, up: bool) -> RecordDict:
    """The payload as it is sent."""
    values = {name: list(value) if isinstance(value, list) else value for name, value in payload.values.items()}
    if not up:
        return RecordDict({_TEXTS: ConfigRecord({_WHAT: payload.what, **values})})
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    numbers = {name: value for name, value in values.items() if name not in texts}
    return RecordDict({_TEXTS: ConfigRecord({_WHAT: payload.what, **texts}), _NUMBERS: MetricRecord(numbers)})


def from_records(records: RecordDict) -> Payload:
    """The payload of a message that arrived.

    Raises:
        MessageError: other records than a payload's.
    """
    strange = set(records) - {_TEXTS, _NUMBERS}
    texts = records.get(_TEXTS)
    if strange or not isinstance(texts, ConfigRecord):
        raise MessageError(f"records {sorted(map(str, records))[:5]} instead of the protocol's")
    values = dict(texts)
    numbers = records.get(_NUMBERS)
    if numbers is not None:
        if not isinstance(numbers, MetricRecord) or set(numbers) & set(values):
            raise MessageError("its numbers are no metric record, or repeat its texts")
        values |= dict(numbers)
    what = values.pop(_WHAT, None)
    if not isinstance(what, str):
        raise MessageError("a message without a name")
    return Payload(what, values)
