"""The Paper page: claims by verdict and kind, each opening to its evidence; and what it says without a ledger."""

from __future__ import annotations

import pytest

from app.screens.paper.claims import evidence_file, has, in_words, kind_of
from zorba_core.study.ledger import Claim, Ledger, write_ledger


def claim(name, verdict="reproduced", where="Table II", printed=2.5, ours=2.0, **more):
    fields = {
        "claim": f"what {name} says",
        "how": f"zorba vram --for {name}",
        "evidence": ("tests/test_vram.py",),
    }
    if verdict == "contradicted":
        fields["counter_example"] = f"counter {name}"
    return Claim(
        id=name, where=where, printed=printed, ours=ours, unit="GiB", verdict=verdict, **{**fields, **more}
    )  # fmt: skip


CLAIMS = (
    claim("alpha"),
    claim("beta", "contradicted", "Theorem 3", None, "2/3 against 33/50"),
    claim("gamma", "cannot be tested here", "Section V, Fig. 5", 91.2, None),
    claim("delta", "reproduced in shape", "Section II"),
)


@pytest.fixture(autouse=True)
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_LEDGER", str(tmp_path / "ledger.json"))
    return tmp_path / "ledger.json"


def see(app):
    return app.switch_page("screens/paper/paper.py").run()


def texts(app) -> str:
    return "\n".join(part.value for part in [*app.title, *app.markdown, *app.caption, *app.warning, *app.info])


def rows(app) -> list[str]:
    return [box.label for box in app.main.expander if not box.label.startswith("Take")]


def test_without_a_ledger_the_page_says_which_command_makes_it(app):
    see(app)
    assert not app.exception
    assert app.code[0].value == "zorba report"


def test_every_claim_has_its_row_and_the_bar_counts_the_verdicts(app, ledger):
    write_ledger(Ledger({"git_commit": "abc"}, CLAIMS), ledger)
    see(app)
    assert not app.exception
    assert len(rows(app)) == 4
    assert "**4 rows**" in texts(app)
    bar = next(part.proto.body for part in app.get("html") if "Claims by verdict" in part.proto.body)
    assert "1 reproduced, 1 reproduced in shape, 1 contradicted, 1 cannot be tested here" in bar


def test_rows_of_one_finding_are_counted_once(app, ledger):
    shared = [claim(f"cell {i}", "contradicted", finding="one protocol") for i in range(3)]
    write_ledger(Ledger({}, (*shared, claim("other", "contradicted"))), ledger)
    see(app)
    assert "**4** of them are contradicted" in texts(app)
    assert "**2 distinct findings**" in texts(app)
    assert "3 rows: one protocol" in texts(app)


def test_claims_are_filtered_by_verdict_kind_and_words(app, ledger):
    write_ledger(Ledger({}, CLAIMS), ledger)
    see(app)
    app.pills(key="verdict").set_value(["contradicted"]).run()
    assert [label for label in rows(app) if "beta" in label] == rows(app)
    app.pills(key="verdict").set_value([]).run()
    app.pills(key="about").set_value(["Tables", "Figures"]).run()
    assert len(rows(app)) == 2
    app.text_input(key="claim_text").set_value("gamma").run()
    assert len(rows(app)) == 1
    app.text_input(key="claim_text").set_value("nothing like it").run()
    assert "No claim passes these filters" in texts(app)


def test_an_opened_row_has_printed_ours_command_counter_example_and_evidence(app, ledger):
    write_ledger(Ledger({}, CLAIMS[:2]), ledger)
    see(app)
    for name in ("alpha", "beta"):
        app.session_state[f"claim_{name}"] = True
    app.run()
    assert not app.exception
    assert {metric.value for metric in app.metric} == {"2.5 GiB", "2 GiB", "–", "2/3 against 33/50"}
    codes = [code.value for code in app.code]
    assert "zorba vram --for alpha" in codes
    assert "python -m pytest tests/test_vram.py" in codes
    assert "Counter beta" in texts(app)


def test_a_damaged_ledger_is_one_sentence(app, ledger):
    for content in ("", "{", "[]", '{"claims": [1]}', '{"claims": [{"id": "a"}]}'):
        ledger.write_text(content)
        see(app)
        assert not app.exception
        assert len(app.warning) == 1, content
        assert "The ledger cannot be read" in app.warning[0].value
        assert "zorba report" in app.warning[0].value


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("Table II", "Tables"),
        ("Section V-B, Fig. 5 and Table I", "Figures"),
        ("Theorem 3 (proof in Appendix B)", "Theorems"),
        ("Algorithm 1", "Algorithms"),
        ("Eq. (12)", "Equations"),
        ("Abstract", "Text"),
    ],
)
def test_a_claims_kind_is_what_its_place_names_first(where, kind):
    assert kind_of(claim("a", where=where)) == kind


def test_evidence_outside_the_checkout_is_not_opened(tmp_path):
    (tmp_path / "secret.png").touch()
    assert evidence_file(str(tmp_path / "secret.png")) is None
    assert evidence_file("../../etc/passwd") is None
    assert evidence_file("tests/test_vram.py::test_something").name == "test_vram.py"
    assert evidence_file("no/such/file") is None
    assert evidence_file("x" * 5000) is None


def test_numbers_are_written_with_their_unit():
    assert in_words(2315.9, "GiB") == "2,315.9 GiB"
    assert in_words(None, "GiB") == "–"
    assert in_words("holds", "") == "holds"
    assert in_words(30_000, "numbers") == "30,000 numbers"
    assert in_words(47.33, "GiB, all clients") == "47.33 GiB"
    assert in_words(0.12, "Spearman's rank correlation with late loss") == "0.12"


def test_a_search_finds_claims_by_any_of_their_words():
    assert has(CLAIMS[1], "counter BETA")
    assert not has(CLAIMS[1], "counter alpha")
    lower = claim("lambda/predicts")
    assert has(lower, "Λ")
    assert has(lower, "λ*")
    assert not has(lower, "γ*")
