"""Pictures of every page in both themes, for the README: `python -m tests.app.screenshots [FOLDER]`.

The Runs page shows what is in artifacts/runs. Streamlit scrolls inside the page, so a picture is as tall as its window.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from tests.app.serving import FRONT_POINT, ROOT, chromium, serve

PLOT_OR_CODE = "[class*=st-key-curves_plot] .main-svg, [data-testid=stCode]"
# name: (address, what to wait for, width, height)
PICTURES = {
    "trade-off": ("/", FRONT_POINT, 1440, 1790),
    "runs": ("/runs", PLOT_OR_CODE, 1440, 1560),
    "infeasible": ("/?fleet=two-kinds&small=0.5&clients=20", "[data-testid=stAlert]", 1440, 860),
    "phone": ("/", FRONT_POINT, 390, 1500),
}
BOTH_THEMES = ("trade-off", "runs")
SETTLE_MS = 2_500


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with serve() as address, chromium() as browser:
        for name, (path, ready, width, height) in PICTURES.items():
            for theme in ("light", "dark") if name in BOTH_THEMES else ("light",):
                context = browser.new_context(
                    color_scheme=theme, viewport={"width": width, "height": height}, reduced_motion="reduce"
                )
                page = context.new_page()
                page.goto(address + path)
                page.wait_for_selector(ready, timeout=60_000)
                page.wait_for_timeout(SETTLE_MS)
                target = folder / f"{name}-{theme}.png"
                page.screenshot(path=target)
                context.close()
                _shrink(target)
                print(f"{target}  {target.stat().st_size // 1024} KB")


def _shrink(path: Path) -> None:
    """256 colours: flat areas and thin lines lose nothing that one sees, and the file is a third of its size."""
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "artifacts" / "screenshots")
