"""The documents name tests and files that exist, and show Python that runs."""

from __future__ import annotations

import re
from pathlib import Path

from zorba_core.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    "*.md",
    "docs/**/*.md",
    "deploy/*.md",
    "zorba_core/**/*.md",
    "artifacts/*.md",
    "artifacts/report/*.md",
    "artifacts/models/*/*.md",
    "notebooks/*.md",
)
DOCUMENTS = [path for place in PLACES for path in sorted(ROOT.glob(place)) if path.name != "CHANGELOG.md"]  # it grows


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readmes_python_prints_the_shown_numbers(capsys):
    """Up to the training; test_wheel.py runs it whole, with fewer rounds."""
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict = {}
    exec(example.partition("run =")[0], names)
    assert capsys.readouterr().out.strip() in README
    assert names["plan"].optimal
    assert names["front"]["knee"].sum() == 1


def test_tests_and_pages_that_a_document_names_exist():
    missing = {}
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        named = [ROOT / place for place in re.findall(r"`(tests/[\w/.-]+)`", text)]
        linked = [document.parent / at for at in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in at]
        wrong = [place for place in named + linked if not place.exists() and not Path(f"{place}.py").exists()]
        if wrong:
            missing[document.name] = wrong
    assert missing == {}


def test_the_documents_have_at_most_8000_words_and_the_readme_500_to_650():
    words = {document: len(document.read_text(encoding="utf-8").split()) for document in DOCUMENTS}
    assert sum(words.values()) <= 8000
    assert 500 <= words[ROOT / "README.md"] <= 650


def test_the_version_stands_in_the_changelog_and_the_citation():
    first = re.search(r"^## \[([\d.]+)\] - (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert first[1] == __version__
    assert f"\nversion: {__version__}\ndate-released: {first[2]}\n" in citation


def test_the_readme_names_the_version_of_torch_once_and_the_wheel_of_this_version():
    assert README.count("torch==") == 1
    assert f"zorba_core-{__version__}-py3-none-any.whl" in README
