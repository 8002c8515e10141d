"""``zorba report``: one line when something is missing, a page that needs nothing else, a ledger that still stands."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.study.ledger.test_claims import ROW
from zorba_core.cli import build_app
from zorba_core.errors import MissingDataError
from zorba_core.report.figures import ReportFigure
from zorba_core.report.page import KEY_CLAIMS, render
from zorba_core.study.ledger import DEFAULT_LEDGER, Ledger, read_ledger
from zorba_core.study.ledger.build import build_ledger
from zorba_core.study.ledger.printed import METHOD_TITLES

DOT = "data:image/png;base64,AAAA"


@pytest.fixture
def small_ledger():
    table = [
        replace(ROW, id=f"{prefix}opt-125m/sst-2/{method}", printed=1.24e5 if "comm" in prefix else 12.5)
        for prefix in ("table-1/", "table-2/vram/", "table-2/communication/")
        for method in METHOD_TITLES
    ]
    wrong = replace(
        ROW, id="theorem-3", claim="a < b & <script>", verdict="contradicted", counter_example="b = a <b>here</b>"
    )
    return Ledger({"left_out": ["lambda: 3 runs of engine version 1 left out"]}, (*table, wrong, replace(ROW, id="x")))


def test_the_page_is_whole_and_asks_for_nothing_outside(small_ledger):
    picture = ReportFigure("A figure", "What it shows", "A figure. What it shows", DOT, DOT, 460, 340)
    page = render(small_ledger, [picture])
    assert re.findall(r'(?:src|srcset|href)="(?!data:|#)', page) == []
    assert "<script" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    assert 'alt="A figure. What it shows"' in page


def test_what_claims_say_is_text_on_the_page(small_ledger):
    page = render(small_ledger, [])
    assert "A &lt; b &amp; &lt;script&gt;" in page
    assert "b = a &lt;b&gt;here&lt;/b&gt;" in page


def test_every_claim_is_on_the_page_and_what_was_left_out_is_named(small_ledger):
    page = render(small_ledger, [])
    assert page.count("<td") >= 3 * len(METHOD_TITLES)
    assert 'id="theorem-3"' in page
    assert 'id="x"' in page
    assert "1.24 × 10⁵" in page
    assert "3 runs of engine version 1 left out" in page


def test_without_experiments_the_report_names_the_command_that_makes_them(tmp_path):
    with pytest.raises(MissingDataError, match="zorba experiment cases --profile standard"):
        build_ledger(tmp_path)
    result = CliRunner().invoke(build_app(), ["report", "--checkout", str(tmp_path), "--out", str(tmp_path / "l.json")])
    assert isinstance(result.exception, MissingDataError)
    assert not (tmp_path / "l.json").exists()


def test_the_committed_ledger_covers_the_paper_and_its_evidence_is_there(root):
    ledger = read_ledger(root / DEFAULT_LEDGER)
    ids = [claim.id for claim in ledger.claims]
    assert sum(name.startswith("table-1/") for name in ids) == 24
    assert sum(name.startswith("table-2/") for name in ids) == 48
    assert set(KEY_CLAIMS) <= set(ids)
    files = {item for claim in ledger.claims for item in claim.evidence if "/" in item}
    assert files
    assert [item for item in sorted(files) if not (root / item).exists()] == []


def test_evidence_that_is_code_can_be_imported(root):
    import importlib

    names = {item for claim in read_ledger(root / DEFAULT_LEDGER).claims for item in claim.evidence if "/" not in item}
    for name in sorted(names):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            try:
                assert hasattr(importlib.import_module(module), attribute), name
            except ModuleNotFoundError:  # a method of a class
                module, _, owner = module.rpartition(".")
                assert hasattr(getattr(importlib.import_module(module), owner), attribute), name


def test_the_commands_of_the_vram_cells_print_their_numbers(root):
    app = build_app()
    cells = [claim for claim in read_ledger(root / DEFAULT_LEDGER).claims if claim.id.startswith("table-2/vram/")]
    for claim in cells:
        result = CliRunner().invoke(app, [*claim.how.split()[1:], "--json"])
        assert result.exit_code == 0, claim.how
        assert json.loads(result.stdout)["total_gib"] == pytest.approx(claim.ours, abs=0.005)


def test_every_command_that_a_row_names_exists(root):
    commands = {command.name or command.callback.__name__ for command in build_app().registered_commands}
    named = {
        claim.how.split()[1] for claim in read_ledger(root / DEFAULT_LEDGER).claims if claim.how.startswith("zorba ")
    }
    assert named <= commands
