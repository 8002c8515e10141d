"""Words of an option, with commas between."""

from __future__ import annotations

import pytest

from zorba_core.data.label_words import as_list, listed
from zorba_core.errors import InvalidInputError
from zorba_core.runs.run_task import task_of


def test_what_is_written_as_a_list_is_read_again():
    words = ["bad", "a, b", 'say "hi"', "good"]
    assert listed(as_list(words)) == words


def test_more_than_one_line_is_refused_by_name():
    with pytest.raises(InvalidInputError, match="cannot be read as one line"):
        listed("bad\rgood,better")


def test_a_config_that_names_no_task_is_refused_by_name():
    with pytest.raises(InvalidInputError, match="neither dataset nor task"):
        task_of({"label_words": ["a", "b"]})
