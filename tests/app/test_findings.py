"""The page Findings."""

from __future__ import annotations

import re

from tests.app.conftest import texts
from zorba_core.files import read_json


def test_five_sentences_stand_above_all_claims(app, root):
    said = texts(app.switch_page("views/findings.py").run())
    claims = read_json(root / "artifacts/claims.json")
    assert f"{len(claims)} of {len(claims)} claims" in said
    assert said.count(":gray[(") == 5


def test_what_to_run_is_told_in_the_sentences_of_the_tables(app, root):
    said = texts(app.switch_page("views/findings.py").run())
    sentences = read_json(root / "artifacts/experiments/advice.json")
    assert len(sentences) == 5
    assert all(sentence in said for sentence in sentences)


def test_the_totals_come_before_the_table_and_add_up(app, root):
    texts(app.switch_page("views/findings.py").run())
    verdicts = [claim["verdict"] for claim in read_json(root / "artifacts/claims.json")]
    shown = {metric.label: int(metric.value) for metric in app.metric}
    assert shown == {verdict: verdicts.count(verdict) for verdict in set(verdicts)}
    assert list(shown)[:2] == ["reproduced", "contradicted"]
    assert [header.value for header in app.header] == [f"{shown[name]} {name}" for name in list(shown)[:2]]


def test_numbers_in_sentences_are_those_of_the_claims(app, root):
    said = texts(app.switch_page("views/findings.py").run())
    lines = [line for line in said.splitlines() if line.startswith("- ") and ":gray[(" in line]
    claims = read_json(root / "artifacts/claims.json")
    known = numbers(" ".join(f"{claim['measured']} {claim['note']}" for claim in claims))
    assert lines
    for line in lines:
        assert numbers(line) - {"95"} <= known, line  # a 95% interval


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+\.\d+|\d\d+", text.replace(",", "")))


def test_claims_are_filtered_by_verdict_and_words(app, root):
    app.query_params["verdict"], app.query_params["find"] = "contradicted", "theorem"
    texts(app.switch_page("views/findings.py").run())
    shown = app.dataframe[0].value
    assert set(shown["verdict"]) == {"contradicted"}
    assert "Theorem 3" in set(shown["where"])
