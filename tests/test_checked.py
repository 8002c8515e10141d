"""A field's declaration decides which values are accepted and what is said of the others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field

from zorba_core.checked import Checked, OneOf, choices_of, help_of, kind_of
from zorba_core.errors import InvalidInputError


class Oven(Checked, frozen=True):
    degrees: int = Field(default=180, ge=30, le=300)
    """Heat, H."""
    share: float = Field(default=0.5, gt=0, lt=1)
    """Of the tray."""
    mode: Annotated[str, OneOf(lambda: {"fan": "moving air", "grill": "from above"})] = "fan"
    """How: {choices}."""
    door: Literal["open", "shut"] = "shut"
    """{choices}."""
    minutes: int | None = Field(default=None, ge=1)
    """Default: until done."""
    lit: bool = False
    """The lamp."""
    recipe: Path | None = None
    """A file."""


def test_a_wrong_value_is_named_with_what_would_be_right():
    for given, message in (
        ({"degrees": 29}, "degrees is 29; it must be at least 30"),
        ({"degrees": 301}, "degrees is 301; it must be at most 300"),
        ({"degrees": 30.5}, "degrees is 30.5; it must be a whole number"),
        ({"degrees": None}, "degrees is None; it must be a whole number"),
        ({"degrees": 10**99}, "degrees is a number of more than 38 digits; it must be at most 300"),
        ({"degrees": "hot" * 33}, f"degrees is '{('hot' * 33)[:56]}...; it must be a whole number"),
        ({"share": 0.0}, "share is 0.0; it must be above 0"),
        ({"share": 1}, "share is 1; it must be below 1"),
        ({"share": math.nan}, "share is nan; it must be a finite number"),
        ({"mode": "steam"}, "mode is 'steam'; choose one of fan, grill"),
        ({"mode": ["fan"]}, "mode is ['fan']; it must be text"),
        ({"door": "ajar"}, "door is 'ajar'; choose open or shut"),
        ({"minutes": 0}, "minutes is 0; it must be at least 1"),
        ({"lit": "maybe"}, "lit is 'maybe'; it must be true or false"),
        ({"colour": "red"}, "colour is 'red'; there is no such setting"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            Oven(**given)
        assert str(caught.value) == message


def test_right_values_pass_numpys_too():
    oven = Oven(degrees=np.int64(300), share=np.float64(0.25), minutes=None, recipe=Path("cake"))
    assert (oven.degrees, oven.share, oven.recipe) == (300, 0.25, Path("cake"))


def test_a_changed_copy_is_checked_again():
    assert Oven(degrees=200).replace(lit=True) == Oven(degrees=200, lit=True)
    with pytest.raises(InvalidInputError, match="degrees is 0"):
        Oven().replace(degrees=0)


def test_a_field_says_its_type_its_choices_and_its_help():
    fields = Oven.model_fields
    assert help_of(fields["degrees"]) == "Heat, H."
    assert help_of(fields["mode"]) == "How: fan: moving air\n\ngrill: from above."
    assert help_of(fields["door"]) == "open or shut."
    assert kind_of(fields["minutes"]) == (int, True)
    assert kind_of(fields["door"]) == (str, False)
    assert tuple(choices_of(fields["door"])) == ("open", "shut")


def test_choices_are_asked_for_only_when_needed():
    def never() -> list[str]:
        raise AssertionError("asked")

    class Lazy(Checked, frozen=True):
        part: Annotated[str, OneOf(never)] = "a"
        """{choices}."""

    assert Lazy().part == "a"
    with pytest.raises(AssertionError, match="asked"):
        help_of(Lazy.model_fields["part"])
