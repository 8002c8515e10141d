"""A field's declaration decides which values are accepted and what is said of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.fields import check, declared, like, setting


@dataclass(frozen=True)
class Oven:
    degrees: int = setting(180, "heat.", symbol="H", at_least=30, at_most=300)
    share: float = setting(0.5, "Of the tray.", above=0, below=1, option="tray_share")
    mode: str = setting("fan", "{choices}.", choices=lambda: {"fan": "moving air", "grill": "from above"})
    door: Literal["open", "shut"] = setting("shut", "The door.", said="unknown door {value}")
    minutes: int | None = setting(None, "Default: until done.", at_least=1)
    lit: bool = setting(False, "The lamp.")
    recipe: Path | None = setting(None, "A file.")
    notes: str = "not declared"

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"degrees": 29}, "degrees is 29; it must be at least 30"),
        ({"degrees": 30.0}, "degrees is 30.0; it must be a whole number"),
        ({"degrees": True}, "degrees is True; it must be a whole number"),
        ({"degrees": None}, "degrees is None; it must be a whole number"),
        ({"degrees": "9" * 99}, f"degrees is '{'9' * 56}...; it must be a whole number"),
        ({"share": 0.0}, "share is 0.0; it must be above 0"),
        ({"share": 1}, "share is 1; it must be below 1"),
        ({"share": math.nan}, "share is nan; it must be a finite number"),
        ({"mode": "steam"}, "mode is 'steam'; choose one of fan, grill"),
        ({"mode": ["fan"]}, "mode is ['fan']; it must be text"),
        ({"door": "ajar"}, "unknown door 'ajar'; choose one of open, shut"),
        ({"minutes": 0}, "minutes is 0; it must be at least 1, or left out"),
        ({"lit": 1}, "lit is 1; it must be true or false"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(given, message):
    with pytest.raises(InvalidInputError) as caught:
        Oven(**given)
    assert str(caught.value) == message


def test_right_values_pass_numpys_too():
    oven = Oven(degrees=np.int64(300), share=np.float64(0.25), minutes=None, recipe=Path("cake"), notes=7)
    assert (oven.degrees, oven.notes) == (300, 7)


def test_a_declaration_says_the_type_the_default_the_option_and_the_help():
    fields = declared(Oven)
    assert list(fields) == ["degrees", "share", "mode", "door", "minutes", "lit", "recipe"]
    assert fields["degrees"].full_help() == "H: heat."
    assert fields["mode"].full_help() == "fan: moving air; grill: from above."
    assert (fields["share"].flag, fields["degrees"].flag) == ("--tray-share", "--degrees")
    assert (fields["minutes"].kind, fields["minutes"].optional, fields["minutes"].default) == (int, True, None)
    assert tuple(fields["door"].choices()) == ("open", "shut")


def test_a_field_of_another_dataclass_keeps_its_declaration_but_for_what_changes():
    @dataclass(frozen=True)
    class Stove:
        degrees: int = like(Oven, "degrees", at_most=250, key="heat")

    field = declared(Stove)["degrees"]
    assert (Stove().degrees, field.at_least, field.at_most, field.help, field.key) == (180, 30, 250, "heat.", "heat")


def test_choices_are_asked_for_only_when_needed():
    def never() -> list[str]:
        raise AssertionError("asked")

    @dataclass(frozen=True)
    class Lazy:
        part: str = setting("a", "{choices}.", choices=never)

    assert declared(Lazy)["part"].flag == "--part"
    with pytest.raises(AssertionError, match="asked"):
        declared(Lazy)["part"].full_help()
