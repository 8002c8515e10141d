"""What comes over a wire is data from strangers: read strictly, refused as a whole, and never a reason to stop."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorba_core.federation.messages import (
    MAX_NUMBERS,
    Aggregate,
    CatchUp,
    Hello,
    MessageError,
    Payload,
    Refusal,
    Registration,
    RoundAnswer,
    RoundTask,
    Standing,
    decode,
    encode,
)

RUN = "ab" * 32
AVERAGES = tuple(
    Aggregate(r, np.array([5, 2**32 - 1], dtype=np.uint32), np.full((3, 2), 0.1 * r), 1e-3) for r in (4, 5)
)
MESSAGES = (
    Hello(RUN, "{}"),
    Registration(RUN, 3, 5, RUN, 100, 2**31, 0),
    RoundTask(RUN, 6, np.array([1, 2], dtype=np.uint32), (0, 2), AVERAGES),
    RoundTask(RUN, 1, np.array([1, 2], dtype=np.uint32), (1,), ()),
    RoundAnswer(RUN, 3, 6, np.array([0.1, -np.inf]), float("nan"), 3),
    CatchUp(RUN, AVERAGES),
    Standing(RUN, 3, 5, RUN),
    Refusal(RUN, 3, 5, "behind"),
)
KINDS = tuple({type(message) for message in MESSAGES})


def same(one, other) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if isinstance(one, tuple) and one and isinstance(one[0], Aggregate):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return one == other or one != one


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_with_the_bits_it_left_with(message):
    assert same(message, decode(encode(message), *KINDS))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_with_a_field_missing_added_or_of_another_type_is_refused(message):
    payload = encode(message)
    for name, value in payload.values.items():
        without = {key: other for key, other in payload.values.items() if key != name}
        wrong = 3 if isinstance(value, str) else "text"
        for values in (without, {**payload.values, name: wrong}, {**payload.values, name: None}):
            with pytest.raises(MessageError):
                decode(Payload(payload.what, values), *KINDS)
    with pytest.raises(MessageError, match="unknown field"):
        decode(Payload(payload.what, {**payload.values, "more": 1}), *KINDS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rho_bar": [0.1] * 11}, "do not make"),
        ({"rho_bar": [float("nan")] * 12}, "finite"),
        ({"lrs": []}, "do not make"),
        ({"rho_bar": [0.0] * (MAX_NUMBERS + 1)}, "at most"),
        ({"seeds_done": [2**32] * 4}, "outside"),
        ({"round": -1}, "whole number"),
        ({"blocks": [True]}, "ints"),
    ],
)
def test_a_task_that_contradicts_itself_is_refused(change, why):
    values = {**encode(MESSAGES[2]).values, **change}
    with pytest.raises(MessageError, match=why):
        decode(Payload("task", values), RoundTask)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
field_names = st.sampled_from(sorted({name for message in MESSAGES for name in encode(message).values}))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([encode(message) for message in MESSAGES]),
    st.dictionaries(field_names | st.text(max_size=5), anything, max_size=4),
    st.none() | anything,
)
def test_whatever_arrives_is_a_message_or_refused(payload, changes, what):
    payload = Payload(payload.what if what is None else what, {**payload.values, **changes})
    with contextlib.suppress(MessageError):
        assert isinstance(decode(payload, *KINDS), KINDS)
