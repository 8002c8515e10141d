"""Controls of the Trade-off page as a hand uses them, and the time from its touch to another picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.app.serving import FRONT_POINT, settled

# Resolves with the milliseconds from the touch (the last event before anything else happens) to the first frame whose
# plot differs: lines, points, texts and ticks.
_WATCH = """
() => {
  const look = () => {
    const plot = document.querySelector('[class*=st-key-front_plot] .main-svg')
    if (!plot) return null
    const parts = [...plot.querySelectorAll('path, text')].map(
      part => (part.getAttribute('d') || '') + (part.getAttribute('transform') || '') + (part.textContent || ''))
    return parts.join('|')
  }
  const before = look()
  window.__change = new Promise(resolve => {
    let start = null
    const touched = () => { start = performance.now() }
    for (const kind of ['keydown', 'mousedown', 'click']) addEventListener(kind, touched, {capture: true})
    const wait = () => {
      const now = look()
      if (start !== null && now !== null && now !== before) {
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
    """``touch(page, turn)`` makes a change that alters the picture; ``aim`` comes before it and is not timed."""

    aim: Callable[[Page, int], None]
    touch: Callable[[Page, int], None]


def time_a_change(page: Page, control: Control, turn: int, pause_ms: int = 400) -> float:
    """Milliseconds from the touch to the first frame with another picture.

    Raises:
        RuntimeError: the picture stayed as it was.
    """
    control.aim(page, turn)
    page.evaluate(_WATCH)
    control.touch(page, turn)
    taken = page.evaluate("window.__change")
    if taken is None:
        raise RuntimeError(f"turn {turn}: the picture stayed as it was")
    settled(page, FRONT_POINT, timeout_s=300)
    page.wait_for_timeout(pause_ms)
    return taken


def _number(label: str, step: int = 1) -> Control:
    """A number that goes up by ``step``."""

    def aim(page: Page, turn: int) -> None:
        box = page.locator(f"[data-testid=stSidebar] input[aria-label='{label}']")
        box.fill(str(int(box.input_value()) + step))

    return Control(aim=aim, touch=lambda page, turn: page.keyboard.press("Enter"))


def _choice(key: str, options: tuple[str, str]) -> Control:
    """A select box that goes back and forth between two of its options."""

    def aim(page: Page, turn: int) -> None:
        page.locator(f".st-key-{key} input[role=combobox]").click()
        page.get_by_role("option", name=options[turn % 2], exact=False).first.hover()

    return Control(aim=aim, touch=_press)


def _click_a_point(page: Page, turn: int) -> None:
    points = page.locator("[class*=st-key-front_plot] .scatterlayer .trace").nth(1).locator(".point")
    place = points.nth((17 * (turn + 1)) % points.count()).bounding_box()
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)


def _press(page: Page, turn: int) -> None:
    page.mouse.down()
    page.mouse.up()


CONTROLS = {
    "seed": _number("Seed"),
    "clients": _number("Clients N"),
    "batch": _number("Batch B"),
    "points": _number("Points E", step=150),
    "what it buys": _choice("y", ("V, mean", "Λ, convergence")),
    "what it costs": _choice("x", ("VRAM in GiB", "Share of all")),
    "log": Control(aim=lambda page, turn: page.locator(".st-key-log label").first.hover(), touch=_press),
    "preference": Control(
        aim=lambda page, turn: page.locator(".st-key-weight input[type=range]").focus(),
        touch=lambda page, turn: page.keyboard.press("Home" if turn % 2 else "End"),
    ),
    "a click on the front": Control(aim=_click_a_point, touch=_press),
}
