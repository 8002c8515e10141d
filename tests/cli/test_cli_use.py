"""``zorba predict``, ``evaluate`` and ``export`` on a small finished run."""

from __future__ import annotations

import json

import pytest

from tests.command import call
from zorba_core.cli.use import rows_of
from zorba_core.errors import InvalidInputError

pytestmark = pytest.mark.usefixtures("rows_divided_once")


def test_a_text_is_answered_before_and_after(whole):
    code, out, _ = call("predict", whole.path, "--text", "the acting was fine", "--json")
    result = json.loads(out)
    table = whole.predict("the acting was fine", base=True)
    assert code == 0
    assert result["prediction"] == table["prediction"][0]
    assert result["probability"] == table["probability"][0]
    assert sum(result["probabilities"].values()) == pytest.approx(1)
    assert result["base"]["probability"] == table["base_probability"][0]
    code, out, _ = call("predict", whole.path, "--text", "the acting was fine")
    before, after = out.splitlines()[1:]
    assert result["base"]["prediction"] in before
    assert result["prediction"] in after


def test_a_file_comes_back_with_two_columns_more(whole, tmp_path):
    (tmp_path / "in.csv").write_text('no,text\n01,"a fine, fine film"\n02,a dull film\n')
    options = ["--file", tmp_path / "in.csv", "--out", tmp_path / "out.csv"]
    code, out, _ = call("predict", whole.path, *options, "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 2
    header, first, _ = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "no,text,prediction,probability"
    answer = whole.predict("a fine, fine film")
    assert first.startswith(f'01,"a fine, fine film",{answer["prediction"][0]},')
    code, _, err = call("predict", whole.path, *options)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "exists already" in err


def test_evaluate_reports_every_number_of_the_contract(whole, tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        '{"text": "a fine film", "label": "positive", "site": "a"}\n'
        '{"text": "a dull film", "label": "negative", "site": "b"}\n'
    )
    code, out, _ = call("evaluate", whole.path, "--data", tmp_path / "rows.jsonl", "--client", "site", "--json")
    result = json.loads(out)
    assert code == 0
    assert {"rows", "accuracy", "per_label", "accuracy_interval", "macro_f1", "confusion"} <= set(result)
    assert result["rows"] == sum(map(sum, result["confusion"])) == 2
    assert {entry["client"] for entry in result["per_client"]} == {"a", "b"}
    code, out, _ = call("evaluate", whole.path, "--json")
    result = json.loads(out)
    assert result["accuracy"] == whole.summary["final_accuracy"]
    assert [entry["rows"] for entry in result["per_client"]] == [100] * 3
    code, out, _ = call("evaluate", whole.path, "--no-base")
    assert f"{whole.summary['final_accuracy']:.3f}" in out
    assert "before" not in out


def test_export_names_the_card(whole, tmp_path):
    code, out, _ = call("export", whole.path, "--to", tmp_path / "model", "--json")
    result = json.loads(out)
    assert code == 0
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(result["files"])
    assert result["weights_sha256"] == whole.summary["weights_sha256"]


def test_a_wrong_request_gets_one_line_and_status_2(whole, tmp_path):
    for arguments, says in [
        (["predict", "nowhere", "--text", "a"], "run 'nowhere' does not exist"),
        (["predict", "{run}"], "give either --text, or --file with --out"),
        (["predict", "{run}", "--text", "a", "--file", "b.csv"], "give either"),
        (["predict", "{run}", "--file", "b.csv"], "belong together"),
        (["predict", "{run}", "--text", " "], "no text in text"),
        (["predict", "{run}", "--file", "no.csv", "--out", "{tmp}/o.csv"], "no.csv"),
        (["predict", "{run}", "--file", "no.csv", "--out", "{tmp}/no/o.csv"], "there is no folder"),
        (["predict", "{run}", "--text", "a", "--model", "no-such"], "unknown model 'no-such'"),
        (["evaluate", "{run}", "--data", "no.csv"], "no.csv"),
        (["evaluate", "{run}", "--label", "x"], "give --data too"),
        (["export", "{run}", "--to", "{run}"], "exists already"),
        (["export", "{run}", "--to", "{run}/config.json/x"], "is not a folder"),
    ]:
        code, out, err = call(*(word.format(run=whole.path, tmp=tmp_path) for word in arguments))
        assert (code, out) == (2, "")
        assert says in err
        assert len(err.strip().splitlines()) == 1


def test_several_text_columns_are_given_by_their_names():
    columns = ("premise", "hypothesis")
    assert rows_of(["premise=a=b", "hypothesis=c"], columns) == [{"premise": "a=b", "hypothesis": "c"}]
    assert rows_of(["x=y", "z"], ("text",)) == [{"text": "x=y"}, {"text": "z"}]
    for texts in (["a"], ["premise=a"], ["premise=a", "premise=b"], ["premise=a", "hypothesis=b", "other=c"]):
        with pytest.raises(InvalidInputError, match=r"give --text premise=\.\.\. --text hypothesis=.*, or a table"):
            rows_of(texts, columns)
