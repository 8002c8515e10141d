"""Controls of the dashboard as a hand uses them, and the time from a touch to another picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.app.serving import FRONT_POINT, settled

# Resolves with the milliseconds from the touch (the last event before anything else happens) to the first frame in
# which what the selector names differs: lines, points, pictures and texts of a plot, cells of a matrix, words.
_WATCH = """
selector => {
  const hosts = [...document.querySelectorAll(selector)].flatMap(root => [...root.querySelectorAll('*')])
    .filter(part => part.shadowRoot)
  const look = () => {
    const parts = []
    for (const root of [...document.querySelectorAll(selector), ...hosts.map(host => host.shadowRoot)]) {
      parts.push(root.textContent)
      for (const part of root.querySelectorAll('path, image, [aria-selected]')) {
        for (const name of ['d', 'transform', 'href', 'aria-selected']) parts.push(part.getAttribute(name))
      }
    }
    return parts.length ? parts.join('|') : null
  }
  const before = look()
  window.__change = new Promise(resolve => {
    let start = null
    const touched = () => { start = performance.now() }
    for (const kind of ['keydown', 'mousedown', 'click']) addEventListener(kind, touched, {capture: true})
    const wait = () => {
      const now = start === null ? before : look()
      if (now !== null && now !== before) {
        for (const kind of ['keydown', 'mousedown', 'click']) removeEventListener(kind, touched, {capture: true})
        requestAnimationFrame(() => resolve(performance.now() - start))
      } else if (start !== null && performance.now() - start > 30000) resolve(null)
      else requestAnimationFrame(wait)
    }
    requestAnimationFrame(wait)
  })
}
"""


@dataclass(frozen=True)
class Control:
    """``touch(page, turn)`` makes a change that alters what ``picture`` (a CSS selector) names; ``aim`` comes before it
    and is not timed."""

    picture: str
    aim: Callable[[Page, int], None]
    touch: Callable[[Page, int], None]


@dataclass(frozen=True)
class Place:
    """A page with its controls. ``path`` is what the address adds to the scenario's; ``sized`` where the answer takes
    longer for a larger fleet."""

    path: str
    ready: str
    controls: Mapping[str, Control]
    query: str = ""
    sized: bool = True

    def address(self, server: str, scenario: str) -> str:
        return f"{server}{self.path}?{'&'.join(filter(None, (scenario, self.query)))}"


def time_a_change(page: Page, control: Control, turn: int, pause_ms: int = 250) -> float:
    """Milliseconds from the touch to the first frame with another picture.

    Raises:
        RuntimeError: the picture stayed as it was.
    """
    control.aim(page, turn)
    page.evaluate(_WATCH, control.picture)
    control.touch(page, turn)
    taken = page.evaluate("window.__change")
    if taken is None:
        raise RuntimeError(f"turn {turn}: {control.picture} stayed as it was")
    settled(page, control.picture, timeout_s=300)
    page.wait_for_timeout(pause_ms)
    return taken


def _press(page: Page, turn: int) -> None:
    page.mouse.down()
    page.mouse.up()


def _under(popover: str, control: Control) -> Control:
    """A control behind a button that opens a small window."""

    def aim(page: Page, turn: int) -> None:
        if not page.locator("[data-testid=stPopoverBody]").is_visible():
            page.get_by_role("button", name=popover, exact=True).click()
            page.locator("[data-testid=stPopoverBody]").wait_for()
        control.aim(page, turn)

    return Control(control.picture, aim, control.touch)


def _number(picture: str, label: str, step: int = 1) -> Control:
    """A number of the sidebar that goes up by ``step``."""

    def aim(page: Page, turn: int) -> None:
        box = page.locator(f"[data-testid=stSidebar] input[aria-label='{label}']")
        box.fill(str(int(box.input_value()) + step))

    return Control(picture, aim, lambda page, turn: page.keyboard.press("Enter"))


def _choice(picture: str, key: str, options: tuple[str, str]) -> Control:
    """A select box that goes back and forth between two of its options."""

    def aim(page: Page, turn: int) -> None:
        page.locator(f".st-key-{key} input[role=combobox]").click()
        page.get_by_role("option", name=options[turn % 2], exact=False).first.hover()

    return Control(picture, aim, _press)


def _segment(picture: str, key: str, options: tuple[str, ...]) -> Control:
    """Buttons side by side, pressed in turn."""

    def aim(page: Page, turn: int) -> None:
        page.locator(f".st-key-{key}").get_by_text(options[turn % len(options)], exact=False).first.hover()

    return Control(picture, aim, _press)


def _slider(picture: str, key: str, keys: tuple[str, str] = ("ArrowRight", "ArrowLeft")) -> Control:
    """A slider that a key moves to and fro."""
    return Control(
        picture,
        lambda page, turn: page.locator(f".st-key-{key} [role=slider], .st-key-{key} input[type=range]").first.focus(),
        lambda page, turn: page.keyboard.press(keys[turn % 2]),
    )


def _hover(selector: str) -> Callable[[Page, int], None]:
    return lambda page, turn: page.locator(selector).first.hover()


def _over_a_point(selector: str, step: int) -> Callable[[Page, int], None]:
    """Put the mouse on another of the points that ``selector`` names, every turn."""

    def aim(page: Page, turn: int) -> None:
        page.wait_for_selector(selector)  # a picture that has just been drawn anew is empty for a moment
        points = page.locator(selector)
        place = points.nth((step * (turn + 1)) % points.count()).bounding_box()
        page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)

    return aim


def _over_a_row(page: Page, turn: int) -> None:
    """Put the mouse on the box that picks a run; a row of the table is 35 pixels high."""
    table = page.locator("[class*=st-key-runs_table] [data-testid=stDataFrameResizable]").bounding_box()
    page.mouse.move(table["x"] + 18, table["y"] + 35 * (2 + turn % 5) + 17)


def _plot(key: str) -> str:
    return f"[class*=st-key-{key}] .main-svg"


FRONT, NUMBERS, MATRIX = _plot("front_plot"), "[data-testid=stMetricValue]", "[class*=st-key-matrix_editor]"
PLACES = {
    "trade-off": Place(
        "/",
        FRONT_POINT,
        {
            "seed": _number(FRONT, "Seed"),
            "clients": _number(FRONT, "Clients N"),
            "batch": _number(FRONT, "Batch B"),
            "points": _number(FRONT, "Points E", step=150),
            "a click on the front": Control(
                FRONT, _over_a_point("[class*=st-key-front_plot] .scatterlayer .trace >> nth=1 >> .point", 17), _press
            ),
            "what it buys": _choice(FRONT, "y", ("V, mean", "Λ, convergence")),
            "what it costs": _choice(FRONT, "x", ("VRAM in GiB", "Share of all")),
            "log": Control(FRONT, _hover(".st-key-log label"), _press),
            "preference": _slider(FRONT, "weight", ("End", "Home")),
        },
    ),
    "fleet": Place(
        "/fleet",
        _plot("vram_plot"),
        {
            "seed": _number(_plot("vram_plot"), "Seed"),
            "clients": _number(_plot("vram_plot"), "Clients N"),
            "batch": _number(_plot("vram_plot"), "Batch B"),
            "model": _choice(_plot("vram_plot"), "model", ("OPT-1.3B", "OPT-350M")),
            "kind of fleet": _choice(_plot("vram_plot"), "fleet", ("Normal", "Uniform")),
        },
    ),
    "allocation": Place(
        "/allocation",
        f"{MATRIX} [data-at]",
        {
            "a cell": Control(
                NUMBERS,
                lambda page, turn: page.locator(f"{MATRIX} [data-at='{turn % 12},{3 + turn}']").hover(),
                _press,
            ),
            "undo": Control(NUMBERS, _hover(".st-key-edit_undo button"), _press),
            "sort clients": _choice(MATRIX, "order", ("blocks held", "VRAM")),
            "seed": _number(MATRIX, "Seed"),
        },
    ),
    "algorithm 1": Place(
        "/allocation",
        _plot("greedy_plot"),
        {
            "next and back": Control(
                _plot("greedy_plot"), lambda page, turn: _hover(_STEP[turn % 2])(page, turn), _press
            )
        },
        query="view=steps&point=7",
    ),
    "toy": Place(
        "/toy",
        _plot("toy_map"),
        {
            "claim": _segment(_plot("toy_map"), "claim", ("Observation 1", "Observation 2", "Observation 3")),
            "class": _choice(_plot("class_plot"), "class", ("e: ", "d: ")),
            "a click on a matrix": Control(
                _plot("class_plot"), _over_a_point("[class*=st-key-toy_map] .scatterlayer .point", 5), _press
            ),
        },
        sized=False,
    ),
    "theory": Place(
        "/theory",
        _plot("rounds_plot"),
        {
            "bound": _choice(_plot("rounds_plot"), "theorem", ("Theorem 2", "Theorem 1, as printed")),
            "step μ": _slider(_plot("rounds_plot"), "mu"),
            "smoothness": _slider(_plot("rounds_plot"), "smooth"),
            "learning rate": _slider(_plot("rounds_plot"), "rate", ("ArrowLeft", "ArrowRight")),
            "rounds": _slider(_plot("rounds_plot"), "rounds"),
            "what to look at": _segment(
                f"{_plot('rounds_plot')}, {_plot('hidden_plot')}", "part", ("What Λ hides", "What the bounds promise")
            ),
        },
    ),
    "runs": Place(
        "/runs",
        _plot("curves_plot"),
        {
            "against": _choice(_plot("curves_plot"), "cost", ("forward passes", "rounds")),
            "a measure more or less": _segment(_plot("curves_plot"), "measure", ("Loss",)),
            "logarithmic": _under("Axes", _segment(_plot("curves_plot"), "log_curves", ("cost",))),
            "smoothing": _under("Axes", _slider(_plot("curves_plot"), "smoothing")),
            "a run more or less": Control(_plot("curves_plot"), _over_a_row, _press),
        },
        query="source=lambda.standard",
        sized=False,
    ),
    "outcomes": Place(
        "/runs",
        _plot("outcomes_plot"),
        {
            "what came out": _choice(
                _plot("outcomes_plot"), "outcome", ("Last validation accuracy", "Best validation")
            ),
            "against": _choice(_plot("outcomes_plot"), "along", ("V, mean of", "Λ, convergence")),
            "seeds": _segment(_plot("outcomes_plot"), "curves", ("Seeds together", "Each")),
        },
        query="source=lambda.standard&picture=outcomes",
        sized=False,
    ),
    "paper": Place(
        "/paper",
        "[data-testid=stExpander]",
        {"verdict": _segment("[data-testid=stExpander] summary", "verdict", ("Contradicted",))},
        sized=False,
    ),
}
_STEP = (".st-key-step_next button", ".st-key-step_back button")
