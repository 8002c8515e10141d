"""The ledger's file: rows stand on evidence or are refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.ledger import Claim, Ledger, read_ledger, write_ledger

ROW = Claim(
    id="table-2/vram",
    claim="VRAM of one cell",
    where="Table II",
    printed=47.31,
    ours=47.308,
    unit="GiB",
    verdict="reproduced",
    how="zorba vram --model opt-125m",
    evidence=("zorba_core.vram.total_bytes",),
)


def test_what_is_written_is_read_back(tmp_path):
    ledger = Ledger({"git_commit": "abc"}, (ROW, replace(ROW, id="other", printed=None, note="a note")))
    write_ledger(ledger, tmp_path / "ledger.json")
    assert read_ledger(tmp_path / "ledger.json") == ledger


def test_verdicts_are_counted_in_their_order():
    ledger = Ledger({}, (ROW, replace(ROW, id="b", verdict="cannot be tested here", ours=None)))
    assert list(ledger.count().items())[:2] == [("reproduced", 1), ("reproduced in shape", 0)]
    assert ledger.count()["cannot be tested here"] == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"evidence": ()}, "no evidence"),
        ({"evidence": ("",)}, "no evidence"),
        ({"verdict": "plausible"}, "verdict is 'plausible'"),
        ({"ours": None}, "ours is empty"),
        ({"verdict": "contradicted"}, "counter-example"),
        ({"how": " "}, "how is empty"),
        ({"where": ""}, "where is empty"),
    ],
)
def test_a_row_that_does_not_stand_on_evidence_is_refused(change, named):
    with pytest.raises(InvalidInputError, match=named):
        replace(ROW, **change)


def test_two_rows_of_one_id_are_refused():
    with pytest.raises(InvalidInputError, match="names more than one row"):
        Ledger({}, (ROW, ROW))


def test_a_missing_ledger_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(MissingDataError, match="zorba report"):
        read_ledger(tmp_path / "ledger.json")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "not a ledger"),
        ("[]", "not a ledger"),
        (json.dumps({"provenance": {}, "claims": [{**asdict(ROW), "colour": "red"}]}), "colour"),
        (json.dumps({"provenance": {}, "claims": [{k: v for k, v in asdict(ROW).items() if k != "how"}]}), "how"),
        (json.dumps({"provenance": {}, "claims": [{**asdict(ROW), "evidence": []}]}), "no evidence"),
    ],
)
def test_a_damaged_ledger_is_refused_in_one_line(tmp_path, content, named):
    path = tmp_path / "ledger.json"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=named) as caught:
        read_ledger(path)
    assert "\n" not in str(caught.value)


def test_rows_of_one_finding_are_one_finding():
    wrong = {"verdict": "contradicted", "counter_example": "c"}
    rows = [replace(ROW, id=f"cell/{i}", finding="one protocol", **wrong) for i in range(12)]
    ledger = Ledger({}, (*rows, replace(ROW, id="alone", **wrong)))
    assert ledger.count()["contradicted"] == 13
    assert ledger.count_findings()["contradicted"] == 2
    assert [len(rows) for rows in ledger.findings("contradicted").values()] == [12, 1]


def test_a_ledger_without_findings_is_still_read(tmp_path):
    old = {name: value for name, value in asdict(ROW).items() if name != "finding"}
    (tmp_path / "ledger.json").write_text(json.dumps({"provenance": {}, "claims": [old]}))
    assert read_ledger(tmp_path / "ledger.json").claims == (ROW,)
