"""Words from outside stay words: nothing of a file, a name or an address becomes a link, a picture or an icon."""

from __future__ import annotations

import csv
import json
import re
from urllib.parse import urlencode

import pytest

from app.screens.train.jobs import JOB, JOBS, LOG
from app.shared.escape import as_code, plain
from app.shared.outside_paths import agree
from app.shared.scenario import Scenario
from app.shared.scenario_link import scenario_to_link
from tests.app.serving import serve, settled
from tests.app.written_runs import write_run
from zorba_core.files import write_json
from zorba_core.study.ledger import Claim, Ledger, write_ledger

LEAK = "http://127.0.0.1:9777/leak.png"
PICTURE = f"![x]({LEAK})"
NAME = f"{PICTURE}<a href={LEAK}>b</a> :material/star: **c**"
# What Streamlit reads as Markdown: of every element its label and help, of some what else they say.
_READ = ("label", "help", "body", "delta", "caption", "text", "new_value_label")
_PAGES = {
    "fleet": "screens/fleet/fleet.py",
    "trade-off": "screens/tradeoff/tradeoff.py",
    "allocation": "screens/allocation/allocation.py",
    "theory": "screens/theory/theory.py",
    "train": "screens/train/train.py",
}
_UNESCAPED = re.compile(r"(?<!\\)(!\[x\]|<a href|:material/star:|\*\*c\*\*)")


def markdown(app) -> list[str]:
    """Every text of the page that Streamlit reads as Markdown."""
    said = []

    def visit(node) -> None:
        proto = getattr(node, "proto", None)
        kind = getattr(node, "type", "")
        for field in _READ if kind not in ("code", "arrow_data_frame", "html") else ():
            value = getattr(proto, field, "")
            said.append(value if isinstance(value, str) else "")
        if kind in ("button_group", "pills", "segmented_control"):
            said.extend(option.content for option in proto.options)
        if kind == "imgs":
            said.extend(image.caption for image in proto.imgs)
        for block in ("expandable", "popover", "tab", "dialog"):
            inner = getattr(proto, block, None)
            said.append(getattr(inner, "label", "") or getattr(inner, "title", ""))
        for child in getattr(node, "children", {}).values():
            visit(child)

    visit(app._tree)
    return said


def figures(app) -> list[str]:
    return [json.dumps(json.loads(chart.proto.spec)) for chart in app.get("plotly_chart")]


def nothing_is_read(app) -> str:
    """All Markdown of the page, which has no word from outside unescaped."""
    assert not app.exception
    for text in markdown(app):
        assert not _UNESCAPED.search(text), text
    for figure in figures(app):
        assert "<a href" not in figure
    return "\n".join(markdown(app))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n\nb\t c", "a b c"),
        (PICTURE, "\\!\\[x\\]\\(http\\:\u2060//127.0.0.1\\:9777/leak.png\\)"),
        ("<b>&lt;", "\\<b\\>\\&lt;"),
        ("$x$ ~y~ |z|", "\\$x\\$ \\~y\\~ \\|z\\|"),
        (":material/star: :smile: :red[x]", "\\:\u2060material/star\\: \\:smile\\: \\:red\\[x\\]"),
        (":streamlit:", "\\:\u2060streamlit\\:"),
        ("=SUM(A1:A9)", "=SUM\\(A1\\:A9\\)"),
        ("www.x.example", "www\u2060.x.example"),
        ("a@b.example", "a\u2060@b.example"),
        ("- a", "\\- a"),
        ("1. a", "1\\. a"),
        ("---", "\\---"),
        ("2.5 GiB", "2.5 GiB"),
        ("-5", "-5"),
        ("a - 1. b: c", "a - 1. b\\: c"),
    ],
)
def test_signs_of_markdown_are_escaped_and_lines_joined(text, shown):
    assert plain(text) == shown


def test_nothing_ends_the_letters_of_code():
    assert as_code(f"a\n\n{PICTURE}\r\n`b`") == f"`a {PICTURE} 'b'`"
    assert as_code("\n") == "` `"


@pytest.fixture
def rows(tmp_path):
    """A CSV whose columns, labels and clients are no plain words."""
    file = tmp_path / "x.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        table = csv.writer(opened)
        table.writerow(["text", NAME, "who"])
        table.writerows([f"words number {i}", (NAME, "b")[i % 2], f"{NAME} {i % 8}"] for i in range(160))
    return file


def test_labels_columns_and_clients_of_a_file(app, rows):
    agree(str(rows))
    app.query_params.update(clients="8", train_dataset="own", train_data=str(rows), train_client="who")
    app.switch_page(_PAGES["train"]).run()
    said = nothing_is_read(app)
    assert f"Words to answer with, for {plain(NAME)}" in said
    assert any("&lt;a href" in figure for figure in figures(app))  # who holds which labels


@pytest.mark.parametrize("key", ["job", "train_model", "train_method"])
def test_what_an_address_names(app, key):
    app.query_params[key] = f"a\n\n{PICTURE}\n\nb"
    app.switch_page(_PAGES["train"]).run()
    assert not app.exception
    said = markdown(app)
    assert any(f"`a {PICTURE} b`" in text for text in said)
    for text in said:
        assert PICTURE not in text.replace(f"`a {PICTURE} b`", "")


def test_the_instead_of_a_link_is_escaped(app, rows):
    agree(str(rows))
    app.query_params.update(clients="8", train_dataset="own", train_data=str(rows), train_label="no such column")
    app.switch_page(_PAGES["train"]).run()
    said = "\n".join(toast.value for toast in app.toast)
    assert "`no such column` is not offered here; instead:" in said
    assert PICTURE not in said


@pytest.mark.parametrize("page", _PAGES)
def test_names_of_clients(app, page):
    table = tuple((f"{NAME} {n}", gib) for n, gib in enumerate((0.01, 0.5, 1.0, 2.0, 4.0)))
    scenario = Scenario(fleet_kind="table", table=table, leave_out_small=True)
    for key, value in {**scenario_to_link(scenario), "view": "steps"}.items():
        app.query_params[key] = value
    app.switch_page(_PAGES[page]).run()
    assert app.session_state["scenario"].table == table
    said = nothing_is_read(app)
    if page == "trade-off":
        assert plain(f"{NAME} 0") in said
    if page == "allocation":
        assert any("&lt;a href" in figure for figure in figures(app))


def test_a_job_and_what_its_process_said(app, runs):
    job = "20260101-000000-abcdef"
    fields = {"kind": "train", "command": ["zorba"], "pid": 1, "stamp": "gone", "started": 1.0, "rounds": 4}
    write_json(_made(runs / JOBS / job) / JOB, {"id": job, "title": NAME, **fields, "version": 1})
    (runs / JOBS / job / LOG).write_text(f"zorba: {NAME}\n")
    app.switch_page(_PAGES["train"]).run()
    assert plain(NAME) in nothing_is_read(app)


def test_a_run_with_such_labels_and_columns(app, runs):
    write_run(runs, [0.5, 0.6], dataset=NAME, model=NAME, label_words=[NAME, NAME])
    write_run(runs, [0.5, 0.6], dataset="toy-reviews", name="other")
    app.query_params["runs"] = f"a\n\n{PICTURE}"
    app.query_params["source"], app.query_params["only_dataset"] = PICTURE, PICTURE
    app.switch_page("screens/runs/runs.py").run()
    said = [text.replace(f"`{PICTURE}`", "") for text in markdown(app)]
    assert not app.exception
    assert not any(PICTURE in text for text in said)


def test_a_ledger(app, tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_LEDGER", str(tmp_path / "ledger.json"))
    claims = tuple(
        Claim(
            id=f"row-{n}",
            claim=NAME,
            where=NAME,
            printed="**c**",
            ours=":material/star:",
            unit=NAME,
            note=NAME,
            verdict="contradicted",
            counter_example=NAME,
            finding=finding,
            how=NAME,
            evidence=("artifacts/runs", NAME),
        )
        for n, finding in enumerate((NAME, ""))
    )
    write_ledger(Ledger({}, claims), tmp_path / "ledger.json")
    app.switch_page("screens/paper/paper.py").run()
    nothing_is_read(app)


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_makes_neither_links_nor_pictures_nor_icons_of_them(tmp_path, rows, browser):
    page, asked = browser.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    with serve(tmp_path / "runs") as address:
        query = {"clients": "8", "train_dataset": "own", "train_data": str(rows), "train_label": NAME}
        named = {"job": f"a\n\n{PICTURE}\n\nb"}
        page.goto(f"{address}/train?{urlencode({**query, **named})}")
        page.click("text=Read this file")
        settled(page, "text=Words to answer with")
        main = page.locator("[data-testid=stMain]")
        assert "Words to answer with, for " + NAME in main.inner_text().replace("\u2060", "")
        assert main.locator("img[src*='9777'], a[href*='9777'], strong:text-is('c')").count() == 0
        assert "star icon" not in main.inner_html()
    assert not [url for url in asked if url.startswith(LEAK)]


def _made(folder):
    folder.mkdir(parents=True)
    return folder
