"""Pictures of every page in both themes: `python -m tests.app.screenshots [FOLDER [NAME ...]]`.

The page Runs shows what is in artifacts/runs. Streamlit scrolls inside the page, so a picture
is as tall as its window.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from tests.app.serving import ANSWERED, ROOT, chromium, serve, settled


class Picture(NamedTuple):
    """A page to photograph. A picture is as tall as its window: choose the height that the page needs."""

    name: str
    address: str
    ready: str  # what to wait for
    height: int
    themes: tuple[str, ...] = ("light", "dark")


PICTURES = [
    Picture("explore", "/?follow=two-level&total=121", ANSWERED, 900),
    Picture("train", "/train?clients=20", ".st-key-train_matrix .main-svg", 900),
    Picture("runs", "/runs", ".st-key-curves .main-svg", 1100),
    Picture("findings", "/findings?find=theorem", "[data-testid=stDataFrame]", 1000),
]
_WIDTH = 1440
SETTLE_MS = 2_500
_FLAT_COLORS = 32


def main(folder: Path, names: Sequence[str] = ()) -> None:
    """All pictures, or those with the given names."""
    folder.mkdir(parents=True, exist_ok=True)
    with serve() as address, chromium() as browser:
        for picture in PICTURES if not names else [one for one in PICTURES if one.name in names]:
            for theme in picture.themes:
                size = {"width": _WIDTH, "height": picture.height}
                context = browser.new_context(color_scheme=theme, viewport=size, reduced_motion="reduce")
                page = context.new_page()
                page.goto(address + picture.address)
                settled(page, picture.ready)
                page.wait_for_timeout(SETTLE_MS)
                target = folder / f"{picture.name}-{theme}.png"
                page.screenshot(path=target)
                context.close()
                _shrink(target)
                print(f"{target}  {target.stat().st_size // 1024} KB", flush=True)


def _shrink(path: Path) -> None:
    """256 colours, those of flat areas exactly: nothing that one sees is lost, and the file is a third of its size."""
    with Image.open(path) as image:
        rgb = image.convert("RGB")
    colors_C3, index_P, count_C = np.unique(
        np.asarray(rgb).reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    flat = colors_C3[np.argsort(-count_C)[:_FLAT_COLORS]]
    rest = rgb.quantize(256 - _FLAT_COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette("RGB")
    palette_K3 = np.vstack([flat, np.array(rest, np.uint8).reshape(-1, 3)])[:256]
    apart_CK = np.square(colors_C3[:, None].astype(int) - palette_K3[None]).sum(-1)
    small = Image.fromarray(apart_CK.argmin(1).astype(np.uint8)[index_P.ravel()].reshape(rgb.height, rgb.width), "P")
    small.putpalette(palette_K3.tobytes())
    small.save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "artifacts" / "screenshots", sys.argv[2:])
