"""The first page: the fleet, who trains what, what Λ is and what memory buys. One component; the core answers here."""

from __future__ import annotations

import base64
import binascii
import uuid
from concurrent.futures import Future, wait
from typing import Any

import streamlit as st

from app import scenario as scenarios
from app.explore import explore
from app.parts import downloads, fleets, ui
from app.parts.doubt import measured
from app.scenario import MOST_COMPARED, SHAPES, Scenario, begin, end, method_titles, origin, put, store, stored
from zorba_core.allocation import Solution
from zorba_core.errors import ZorbaError
from zorba_core.fleet import MIXES
from zorba_core.vram import PRESETS

KEY = "explore"
_TWINS = ("balanced", "two-level")  # methods that the browser computes too
_PATIENCE_S = 0.12  # the answers that come within this go out at once; the component asks again for the others
_MOST_CELLS = 400_000  # a larger matrix is not sent
_CURVE_CELLS = 3_000  # a larger fleet has no curve by the paper's method: it would take minutes
_SPEC = ("num_blocks", "hidden_size", "num_heads", "num_parameters", "ffn_ratio")
_REVISION, _SESSION, _MESSAGE, _FILES = "explore_revision", "explore_session", "explore_message", "explore_files"


def page() -> None:
    begin("explore")
    fleets.warm_up()
    _explore()


@ui.fragment
def _explore() -> None:
    """The component and the downloads. A release executes only this."""
    scenario = stored()
    study = fleets.study(scenario.fleet)
    result = explore(KEY, _data(scenario, study), _take, {name: _EVENTS[name] for name in _EVENTS})
    end(scenario)
    if result.go == "findings":
        st.switch_page("views/findings.py")
    if not study.problem:
        _links(scenario, study)


def _data(scenario: Scenario, study: fleets.Study) -> dict[str, Any]:
    """Everything that the component shows and cannot compute."""
    waiting: list[Future[Any]] = []
    answers = {} if study.problem else _answers(scenario, study, waiting)
    fields = scenario.model_dump(mode="json", exclude={"compared"})
    random = {name: fields[name] for name in ("shape", "clients", "seed", "mix")}
    return {
        "session": st.session_state.setdefault(_SESSION, uuid.uuid4().hex),
        "origin": origin(),
        "revision": st.session_state.get(_REVISION, 0),
        "fields": fields,
        "drawn": random,
        "draw": fleets.draw_of(scenario),
        "problem": study.problem,
        "rescue": fleets.rescued(scenario) if study.too_small else {},
        "answers": answers,
        "paper_curve": _paper_curve(scenario, study, waiting),
        "waiting": any(not future.done() for future in waiting),
        "kept": _kept(scenario),
        "message": st.session_state.get(_MESSAGE, ""),
        "measured": measured(),
        "choices": _choices(),
        "paper": Scenario().model_dump(mode="json", exclude={"compared", "follow"}),
    }


def _choices() -> dict[str, Any]:
    return {
        "shapes": SHAPES,
        "models": {
            name: {"title": name, **{part: getattr(spec, part) for part in _SPEC}} for name, spec in PRESETS.items()
        },
        "mixes": {name: mix.title for name, mix in MIXES.items()},
        "methods": method_titles(),
    }


def _answers(scenario: Scenario, study: fleets.Study, waiting: list[Future[Any]]) -> dict[str, Any]:
    """The core's allocations at the point, by method: all that the browser cannot compute, and the one that is shown.
    None: the method has no allocation with so few blocks. A method that is not ready yet is left out."""
    total = study.total(scenario)
    names = [name for name in method_titles() if name not in _TWINS or name == scenario.follow]
    asked = {name: study.ask(name, total) for name in names}
    wait(asked.values(), timeout=_PATIENCE_S)
    waiting += asked.values()
    return {name: _answer(future.result()) for name, future in asked.items() if _succeeded(future)}


def _succeeded(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _answer(solution: Solution | None) -> dict[str, Any] | None:
    if solution is None:
        return None
    allocation, A_MN = solution.allocation, solution.allocation.A_MN
    return {
        "lambda": solution.value,
        "bound": solution.lower_bound,
        "total": allocation.total_blocks,
        "min_popularity": allocation.min_popularity,
        "mean_inverse_popularity": allocation.mean_inverse_popularity,
        "single": int((allocation.blocks_held_N == 1).sum()),
        "rows": ["".join("01"[cell] for cell in row) for row in A_MN.tolist()] if A_MN.size <= _MOST_CELLS else None,
    }


def _paper_curve(scenario: Scenario, study: fleets.Study, waiting: list[Future[Any]]) -> list[list[float]] | None:
    """Points (total, Λ) of the paper's method, if it is the one that is shown."""
    if study.problem or scenario.follow != "paper" or study.needs.num_blocks * len(study.gib_N) > _CURVE_CELLS:
        return None
    future = study.ask_curve()
    waiting.append(future)
    if not _succeeded(future):
        return None
    curve = future.result()
    return [list(point) for point in zip(curve.blocks_P.tolist(), curve.lambda_P.tolist(), strict=True)]


def _kept(scenario: Scenario) -> list[dict[str, Any]]:
    """The fleets kept for comparison, without those that have no allocation."""
    kept = []
    for item in scenario.compared:
        slot, name, link = [*item.split("|", 2), "", ""][:3]
        study = fleets.study(scenarios.of_link(link).fleet)
        if slot not in ("0", "1", "2", "3") or study.problem:
            continue
        other = "" if study.scenario.model == scenario.model else f", {study.scenario.model}"
        needs = {name: getattr(study.needs, name) for name in ("num_blocks", "model_gib", "block_gib")}
        kept.append(
            {
                "slot": "ABCD"[int(slot)], "name": f"{name}{other}"[:60], "item": item, "clients": len(study.gib_N),
                "budget": study.budget_N.tolist(), "needs": needs,
            }
        )  # fmt: skip
    return kept


def _links(scenario: Scenario, study: fleets.Study) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.page_link("views/train.py", label="Train this", icon=":material/model_training:")
        with st.popover("Download", icon=":material/download:"):
            downloads.menu(scenario, study)


# What the component sends: callbacks, which run before the page.


def _sent(name: str) -> Any:
    return (st.session_state.get(KEY) or {}).get(name)


def _take() -> None:
    """A release: the fields, unless they are older than a link or Back."""
    state = _sent("state")
    if not isinstance(state, dict) or state.get("origin") != origin():
        return
    fields = {name: value for name, value in state["fields"].items() if name != "compared"}
    store(Scenario.of_fields({**fields, "compared": stored().compared}))
    st.session_state[_REVISION] = int(state["revision"])
    st.session_state.pop(_MESSAGE, None)


def _take_file() -> None:
    """A file, or the numbers typed into the list. If it is no fleet, the former one stays."""
    file = _sent("file") or {}
    try:
        content = base64.b64decode(file["base64"]) if "base64" in file else _list_of_text(str(file["text"]))
        rows = fleets.rows_of_file(content)
    except (ZorbaError, binascii.Error, ValueError) as error:
        st.session_state[_MESSAGE] = f"{str(error)[:1].upper()}{str(error)[1:]}. The former fleet stays."
        return
    st.session_state.pop(_MESSAGE, None)
    put(Scenario.of_fields({**dict(stored()), "shape": "list", "rows": rows, "bars": (), "flips": ""}))


def _list_of_text(text: str) -> bytes:
    """``0.7 x 20, 1.3`` as a table of GiB and clients."""
    lines = ["vram_gib,clients"]
    for item in text.replace("\n", ",").replace(";", ",").split(","):
        if item.strip():
            gib, _, clients = item.partition("x")
            lines.append(f"{gib.strip()},{clients.strip() or 1}")
    return "\n".join(lines).encode()


def _keep() -> None:
    scenario = stored()
    taken = {item.split("|", 1)[0] for item in scenario.compared}
    slot = next((slot for slot in map(str, range(MOST_COMPARED)) if slot not in taken), None)
    link = scenarios.link_of(scenario.fleet)
    if slot is None or any(item.endswith(f"|{link}") for item in scenario.compared):
        return
    name = fleets.name_of(scenario).replace("|", "/")
    store(scenario.replace(compared=(*scenario.compared, f"{slot}|{name}|{link}")))


def _forget() -> None:
    scenario, item = stored(), _sent("forget")
    store(scenario.replace(compared=tuple(other for other in scenario.compared if other != item)))


_EVENTS = {"file": _take_file, "keep": _keep, "forget": _forget}
page()
