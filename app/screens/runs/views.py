"""Saved views of the Runs page: a name, and the address that shows it. No Streamlit here.

Those that somebody saved lie in ``views.json`` of the runs folder; those of the committed experiments come with the
dashboard. Names and addresses of the file are words from outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from zorba_core.checksums import read_words, write_sealed
from zorba_core.errors import InvalidInputError

VIEWS = "views.json"
LONGEST_NAME, MOST_VIEWS = 80, 100
_LONGEST_ADDRESS, _MOST_BYTES, _MOST_FIELDS = 4_000, 1_000_000, 300
_NOT_PART = ("embed", "embed_options")


@dataclass(frozen=True)
class SavedView:
    """What the page shows at an address; ``given``: it came with the dashboard."""

    name: str
    address: str
    given: bool = False

    @property
    def parameters(self) -> dict[str, list[str]]:
        return parse_qs(self.address, keep_blank_values=True, max_num_fields=_MOST_FIELDS)


@dataclass(frozen=True)
class Views:
    """The views of a runs folder; ``without``: names of given views that somebody deleted."""

    saved: tuple[SavedView, ...] = ()
    without: tuple[str, ...] = ()

    def all(self, experiments: Sequence[tuple[str, str]]) -> list[SavedView]:
        """Saved ones, and those of experiments that are there."""
        there = {f"{name}.{profile}" for name, profile in experiments}
        names = {view.name for view in self.saved} | set(self.without)
        given = [view for view in GIVEN if view.name not in names and view.parameters["source"][0] in there]
        return [*self.saved, *given]

    def with_view(self, name: str, parameters: Mapping[str, Sequence[str]]) -> Views:
        """With a view of the page as it is; one of this name is replaced.

        Raises:
            InvalidInputError: no name, too many views, or an address too long to keep.
        """
        name = _clean(name)
        fields = {key: list(texts) for key, texts in parameters.items() if key not in _NOT_PART}
        address = urlencode(fields, doseq=True)
        if not name:
            raise InvalidInputError("a view needs a name")
        if len(address) > _LONGEST_ADDRESS:
            raise InvalidInputError("this view has too many picked runs to be kept; pick fewer, or group the seeds")
        others = tuple(view for view in self.saved if view.name != name)
        if len(others) >= MOST_VIEWS:
            raise InvalidInputError(f"there are {MOST_VIEWS} views already; delete one first")
        return replace(self, saved=(*others, SavedView(name, address)))

    def renamed(self, view: SavedView, name: str) -> Views:
        """
        Raises:
            InvalidInputError: no name, or another view has it.
        """
        name = _clean(name)
        if not name:
            raise InvalidInputError("a view needs a name")
        if name != view.name and name in {other.name for other in (*self.saved, *GIVEN)}:
            raise InvalidInputError(f"another view is called {name!r}")
        if view.given:
            return replace(self, saved=(*self.saved, SavedView(name, view.address)), without=(*self.without, view.name))
        return replace(self, saved=tuple(replace(v, name=name) if v == view else v for v in self.saved))

    def less(self, view: SavedView) -> Views:
        if view.given:
            return replace(self, without=(*self.without, view.name))
        return replace(self, saved=tuple(other for other in self.saved if other != view))


def read_views(folder: Path) -> Views:
    """The views of a runs folder; none where it has no file.

    Raises:
        InvalidInputError: the file is damaged.
    """
    return read_words(folder / VIEWS, _MOST_BYTES, _views, "these are no saved views; remove the file") or Views()


def _views(fields: Any) -> Views:
    saved = [SavedView(_clean(item["name"]), item["address"]) for item in fields["views"][:MOST_VIEWS]]
    if not all(view.name and isinstance(view.address, str) for view in saved):
        raise ValueError
    saved = [view for view in saved if len(view.address) <= _LONGEST_ADDRESS and view.parameters is not None]
    return Views(tuple(saved), tuple(_clean(name) for name in fields.get("without", [])[:MOST_VIEWS]))


def write_views(folder: Path, views: Views) -> None:
    """
    Raises:
        InvalidInputError: the runs folder cannot be written.
    """
    content = {
        "views": [{"name": view.name, "address": view.address} for view in views.saved],
        "without": list(views.without),
    }
    write_sealed(folder / VIEWS, content)


def same_view(view: SavedView, parameters: Mapping[str, Sequence[str]]) -> bool:
    """Whether the page shows this view now. The address may say more than the view does: what the sidebar adds."""
    return all(list(parameters.get(key, [""])) == texts for key, texts in view.parameters.items())


def suggested_name(
    *, methods: Sequence[str], datasets: Sequence[str], curves: int, picture: str, cost: str, outcome: tuple[str, str]
) -> str:
    """``Four methods by bytes sent on SST-2``.

    Args:
        methods, datasets: of the runs in the picture, each once; curves: how many there are.
        outcome: labels of what came out, and against what.
    """
    if picture == "outcomes":
        what = f"{outcome[0]} against {outcome[1]}"
    else:
        number = _NUMBERS[len(methods)] if 1 < len(methods) < len(_NUMBERS) else f"{len(methods)}"
        several = f"{curves} curve{'' if curves == 1 else 's'} of {methods[0]}" if methods else "Runs"
        what = f"{number} methods" if len(methods) > 1 else several
        what += " to target" if picture == "target" else ""
        what += f" by {cost}"
    name = what + (f" on {_DATASETS.get(datasets[0], datasets[0])}" if len(datasets) == 1 else "")
    return _clean(name[:1].upper() + name[1:])


def _clean(name: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:LONGEST_NAME].strip()


_DATASETS = {"sst2": "SST-2", "ag-news": "AG News", "snli": "SNLI"}
_NUMBERS = ("no", "one", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def _picked(names: Sequence[str]) -> str:
    return "".join(f"&runs={name}" for name in names)


_METHODS = ("zorba", "fedit", "decomfl", "fedzo")
GIVEN = (
    SavedView(
        "Four methods by bytes on SST-2",
        "source=tables.standard&only_dataset=sst2&curves=seeds&cost=bytes&log_curves=cost"
        "&measure=eval_accuracy,eval_loss"
        + _picked([f"{method}-sst2-{seed}" for method in _METHODS for seed in range(5)]),
        given=True,
    ),
    SavedView(
        "What the target costs, by method",
        "source=tables.standard&only_dataset=sst2&curves=seeds&cost=work&log_target=cost&picture=target"
        + _picked([f"{method}-sst2-{seed}" for method in _METHODS for seed in range(5)]),
        given=True,
    ),
    SavedView(
        "Does a lower Λ train better?",
        "source=lambda.standard&picture=outcomes&log_outcomes=x&curves=seeds&runs=",
        given=True,
    ),
    SavedView(
        "The paper's three scenarios",
        "source=cases.standard&curves=seeds&measure=eval_accuracy,eval_loss"
        + _picked([f"SC{case}-sst2-{seed}" for case in (1, 2, 3) for seed in range(5)]),
        given=True,
    ),
    SavedView(
        "What each ablation does to the accuracy",
        "source=ablations.standard&curves=seeds&runs=~a42",
        given=True,
    ),
)
