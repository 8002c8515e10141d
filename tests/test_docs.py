"""The pages for strangers can be built, and no reference in them is broken.

A strict build fails for a link between pages, an anchor, a cross-reference of a docstring or a page of the navigation
that leads nowhere. What a browser would still not reach is looked for in the pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(ROOT / "docs/mkdocs.yml"), "-d", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


def targets(page: Path) -> set[str]:
    """Files that a page links to or loads, without their anchors."""
    text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {unquote(each).partition("#")[0] for each in re.findall(r'(?:href|src)="([^"]*)"', text)} - {""}


def test_every_link_and_picture_leads_to_a_file_of_the_site(site):
    missing = {}
    for page in sorted(site.rglob("*.html")):
        local = {each for each in targets(page) if not re.match(r"[a-z]+:", each)}
        if page.name != "404.html" and (lost := {each for each in local if not (page.parent / each).exists()}):
            missing[str(page.relative_to(site))] = lost
    assert missing == {}


def test_a_page_loads_nothing_from_another_server(site):
    loads = r'<(?:script|img|iframe)[^>]*\bsrc="(https?:[^"]*)|<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]*)'
    found = {page.name: re.findall(loads, page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    assert {page: outside for page, outside in found.items() if outside} == {}


def test_public_names_and_walkthroughs_have_their_pages(site):
    import zorba_core

    listed = (site / "docs/api/index.html").read_text(encoding="utf-8")
    assert [name for name in zorba_core.__all__ if f">{name}</code>" not in listed] == []
    pictures = {page.stem: page.read_text(encoding="utf-8").count("<img") for page in site.glob("notebooks/0*.html")}
    assert len(pictures) == 8
    assert min(pictures.values()) >= 1  # beside the pictures of the walkthrough, the page's own mark
