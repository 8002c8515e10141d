"""What MkDocs needs beyond its settings: pages from where the repository has them, notebooks as pages, roles as links.

MkDocs calls the functions ``on_...``; mkdocstrings loads :class:`Roles`.
"""

from __future__ import annotations

import ast
import base64
import functools
import json
import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LOG = logging.getLogger("mkdocs.hooks")
ROOT = Path(__file__).resolve().parents[1]
PLACES = ("*.md", "docs/**/*.md", "deploy/*.md", "notebooks/*.md", "zorba_core/**/*.md", "artifacts/**/*.md")
PICTURES = ("app/mark.svg", "artifacts/screenshots/*.png")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")
_MATH = re.compile(r"\$\$(.+?)\$\$|(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])", re.DOTALL)
_NAMES = "<!-- public names -->"
_ROLE = re.compile(r":\w+:`~?([\w.]+)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every document, picture and notebook of the repository under its own path."""
    for place in (*PLACES, *PICTURES):
        for path in sorted(ROOT.glob(place)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        add_notebook(path, files, config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A link to a notebook leads to its page. One to a file that is no page becomes text: the site has no source."""
    folder = posixpath.dirname(page.file.src_uri)

    def keep(link: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target.endswith(".ipynb"):
            return f"[{link[1]}]({link[2].removesuffix('.ipynb')}.md)"
        is_source = "://" not in link[2] and files.get_file_from_path(target) is None and (ROOT / target).exists()
        return link[1] if is_source else link[0]

    if _NAMES in markdown:
        markdown = markdown.replace(_NAMES, _public_names())
    return _LINK.sub(keep, markdown)


def _public_names() -> str:
    """The names of ``import zorba_core``, with links to their entries."""
    package = griffe.load("zorba_core", search_paths=[ROOT])
    homes = ast.literal_eval(str(package["_HOME"].value))
    return "\n".join(f"- {_link(package, f'zorba_core.{home}.{name}')}" for name, home in homes.items())


def add_notebook(path: Path, files: Files, config: MkDocsConfig) -> None:
    """Add the notebook as a page, and its stored pictures as files."""
    lines, name = [], f"notebooks/{path.stem}"
    for index, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines.append(_with_formulas(source))
            continue
        lines.append(f"```python\n{source}\n```")
        for number, output in enumerate(cell.get("outputs", ())):
            picture = f"{name}-{index}-{number}.png"
            if png := output.get("data", {}).get("image/png"):
                files.append(File.generated(config, picture, content=base64.b64decode("".join(png))))
            lines += _output(output, posixpath.basename(picture))
    files.append(File.generated(config, f"{name}.md", content="\n\n".join(lines)))


def _output(output: dict[str, Any], picture: str) -> Iterator[str]:
    data = output.get("data", {})
    if "image/png" in data:
        yield f'<div class="output" markdown>\n\n![Output of the cell above]({picture})\n\n</div>'
    elif "text/html" in data:
        table = re.sub(r"<style.*?</style>|\n\s*", "", "".join(data["text/html"]), flags=re.DOTALL)
        yield f'<div class="output">{table}</div>'
    elif text := "".join(data.get("text/plain", output.get("text", ""))):
        yield f"```text\n{text.rstrip()}\n```"


def _with_formulas(source: str) -> str:
    """LaTeX as MathML, which a browser draws without a script."""

    def formula(match: re.Match) -> str:
        latex = match[1] or match[2]
        return convert(latex.replace(r"\ ", " "), display="block" if match[1] else "inline")

    return _MATH.sub(formula, source)


class Roles(griffe.Extension):
    """Docstrings name code by Sphinx roles. A name with an entry in these pages becomes a link, others become code.

    A name that is nowhere in the package is a broken reference: it is logged, and a strict build fails.
    """

    def on_package(self, *, pkg: griffe.Module, **others: Any) -> None:
        del others
        for obj in _objects(pkg):
            if obj.docstring is not None:
                obj.docstring.value = _ROLE.sub(lambda role, obj=obj: _link(obj, role[1]), obj.docstring.value)


def _objects(obj: griffe.Object) -> Iterator[griffe.Object]:
    yield obj
    for member in obj.members.values():
        if not member.is_alias:
            yield from _objects(member)


def _link(obj: griffe.Object, name: str) -> str:
    code, target = f"`{name.rpartition('.')[2]}`", _target(obj, name)
    if target is None and not name.isupper():  # of constants assigned in pairs there is no record
        LOG.warning("%s: its docstring names %s, which does not exist", obj.path, name)
    if target is None:
        return code
    shown = any(f"{target.path}.".startswith(f"{entry}.") for entry in _entries())
    private = any(part.startswith("_") for part in target.path.split("."))
    return f"[{code}][{target.path}]" if shown and not private and target.has_docstring else code


def _target(obj: griffe.Object, name: str) -> griffe.Object | None:
    """The object with this full name, or with this name in the innermost scope around ``obj``."""
    scope, package = obj, obj.package
    if name.startswith(f"{package.path}."):
        scope, name = package, name.removeprefix(f"{package.path}.")
    while scope is not None:
        try:
            found = scope[name]
            return found.final_target if found.is_alias else found
        except (KeyError, griffe.AliasResolutionError):
            scope = scope.parent
    return None


@functools.cache
def _entries() -> tuple[str, ...]:
    """The modules whose entries are in docs/api."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "api").glob("*.md"))]
    return tuple(name for text in texts for name in re.findall(r"^::: ([\w.]+)", text, re.MULTILINE))
