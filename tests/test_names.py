"""Names of functions, classes, parameters and variables use the field's words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# People as subjects of code, and clauses without a head.
AVOIDED = frozenset(
    {
        "found", "told", "tell", "tells", "kept", "keeps", "lacking", "lacks", "hear", "hears", "heard", "judge",
        "judges", "judged", "beside", "greet", "greets", "greeted", "stands", "standing", "strange", "foreign",
        "nowhere", "said", "asks", "belongs", "learned", "spoken", "speaks", "whose", "gone", "owes", "owed", "begun",
        "knows", "believes", "thinks", "wants", "likes", "sees",
    }
)  # fmt: skip
_PARTS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")


def names_of(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_no_name_has_a_word_that_a_stranger_has_to_guess():
    found = {
        str(file.relative_to(ROOT)): bad
        for folder in ("zorba_core", "app")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if (bad := sorted(name for name in names_of(ast.parse(file.read_text())) if AVOIDED & words(name)))
    }
    assert found == {}


def words(name: str) -> set[str]:
    return {part.lower() for part in _PARTS.split(name)}
