"""The documents name tests and files that exist, and show Python that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "zorba_core").rglob("*.md"), *(ROOT / "app").rglob("*.md")]


def test_the_readme_shows_python_that_runs():
    """Up to the training, which other tests do."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(example.partition("run =")[0], names)
    assert names["plan"].optimal
    assert names["front"]["knee"].sum() == 1


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_and_pages_that_a_document_names_exist(document):
    text = document.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.-]+)`", text)
    linked = [place for place in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in place]
    missing = [place for place in named if not (ROOT / place).exists() and not (ROOT / f"{place}.py").exists()]
    missing += [place for place in linked if not (document.parent / place).exists()]
    assert missing == []
