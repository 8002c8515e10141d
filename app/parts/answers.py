"""What the core answers to the component of the page Explore, and what a move there changes. No Streamlit."""

from __future__ import annotations

import base64
from concurrent.futures import Future, wait
from typing import Any

from app import scenario as scenarios
from app.parts import fleets
from app.parts.doubt import measured
from app.scenario import MOST_COMPARED, SHAPES, Scenario, method_titles
from zorba_core.allocation import Solution
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.fleet import MIXES
from zorba_core.vram import PRESETS

TWINS = ("balanced", "two-level")  # methods that the browser computes too
_PATIENCE_S = 0.12  # the answers that come within this go out at once; the component asks again for the others
_MOST_CELLS = 400_000  # a larger matrix is not sent
_CURVE_CELLS = 3_000  # a larger fleet has no curve by the paper's method: it would take minutes
_SPEC = ("num_blocks", "hidden_size", "num_heads", "num_parameters", "ffn_ratio")


def data_of(scenario: Scenario, study: fleets.Study) -> dict[str, Any]:
    """Everything about a scenario that the component shows and cannot compute."""
    waiting: list[Future[Any]] = []
    answers = {} if study.problem else _answers(scenario, study, waiting)
    fields = scenario.model_dump(mode="json", exclude={"compared"})
    random = {name: fields[name] for name in ("shape", "clients", "seed", "mix")}
    return {
        "fields": fields,
        "drawn": random,
        "draw": fleets.draw_of(scenario),
        "problem": study.problem,
        "rescue": fleets.rescued(scenario) if study.too_small else {},
        "answers": answers,
        "paper_curve": _paper_curve(scenario, study, waiting),
        "waiting": any(not future.done() for future in waiting),
        "kept": _kept(scenario),
        "measured": measured(),
        "choices": _choices(),
        "compared": scenario.compared,
        "defaults": Scenario().model_dump(mode="json", exclude={"compared"}),
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
    names = [name for name in method_titles() if name not in TWINS or name == scenario.follow]
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


def after(scenario: Scenario, event: str, value: Any) -> Scenario:
    """The scenario after an event of the component: ``state`` (a release: its fields), ``file`` (a file, or the numbers
    typed into the list), ``keep`` (this fleet, for comparison) and ``forget`` (a kept one). Others change nothing.

    Raises:
        InvalidInputError: the file or the numbers are no fleet, or the fleet cannot be kept; a sentence for the page.
    """
    if event == "state":
        return Scenario.of_fields({**value["fields"], "compared": scenario.compared})
    if event == "file":
        return Scenario.of_fields({**dict(scenario), "shape": "list", "rows": _rows(value), "bars": (), "flips": ""})
    if event == "keep":
        return _with_kept(scenario)
    if event == "forget":
        return scenario.replace(compared=tuple(other for other in scenario.compared if other != value))
    return scenario


def _rows(file: dict[str, Any]) -> tuple[tuple[float, int], ...]:
    try:
        content = base64.b64decode(file["base64"]) if "base64" in file else list_of_text(str(file.get("text", "")))
        return fleets.rows_of_file(content)
    except (ZorbaError, ValueError) as error:
        said = f"{str(error)[:1].upper()}{str(error)[1:]}. The former fleet stays."
        raise InvalidInputError(said) from None


def _with_kept(scenario: Scenario) -> Scenario:
    taken = {item.split("|", 1)[0] for item in scenario.compared}
    slot = next((slot for slot in map(str, range(MOST_COMPARED)) if slot not in taken), None)
    link = scenarios.link_of(scenario.fleet)
    if slot is None or any(item.endswith(f"|{link}") for item in scenario.compared):
        return scenario
    if len(fleets.gib_of(scenarios.of_link(link))) != len(fleets.gib_of(scenario)):
        raise InvalidInputError("This list of clients is too long for an address, so it cannot be kept.")
    name = fleets.name_of(scenario).replace("|", "/")
    return scenario.replace(compared=(*scenario.compared, f"{slot}|{name}|{link}"))


def list_of_text(text: str) -> bytes:
    """``0.7 x 20, 1.3`` as a table of GiB and clients."""
    lines = ["vram_gib,clients"]
    for item in text.replace("\n", ",").replace(";", ",").split(","):
        if item.strip():
            gib, _, clients = item.partition("x")
            lines.append(f"{gib.strip()},{clients.strip() or 1}")
    return "\n".join(lines).encode()
