"""The documents name tests and files that exist, and show Python that runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    "*.md",
    "zorba_core/**/*.md",
    "artifacts/*.md",
    "artifacts/report/*.md",
    "artifacts/models/*/*.md",
    "notebooks/*.md",
)
DOCUMENTS = [path for place in PLACES for path in sorted(ROOT.glob(place))]


def test_the_readme_shows_python_that_runs():
    """Up to the training, which other tests do."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(example.partition("run =")[0], names)
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


def test_the_documents_have_at_most_7000_words_and_the_readme_900():
    words = {document: len(document.read_text(encoding="utf-8").split()) for document in DOCUMENTS}
    assert sum(words.values()) <= 7000
    assert words[ROOT / "README.md"] <= 900
