"""The dashboard promises of Λ, V and the default solver no more than the runs show."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from app.shared import glossary, tradeoff
from tests.app.shown import TRADE_OFF

ROOT = Path(__file__).resolve().parents[2]


def test_v_is_what_it_is_and_no_predictor():
    """The words on screen give V's identity; that it is the bias and variance of training was never measured."""
    sources = [
        *ROOT.glob("app/**/*.py"),
        ROOT / "zorba_core/allocation/measures.py",
        ROOT / "README.md",
        ROOT / "artifacts/report/README.md",
    ]
    claiming = [path.name for path in sources if "bias and variance of the a" in path.read_text(encoding="utf-8")]
    assert claiming == []
    assert "how unequal clients' weights in the blocks' averages are" in glossary._TABLE
    assert "how unequal clients' weights" in tradeoff.MEASURES["mean_inverse_popularity"].help


def test_the_glossary_says_that_the_bound_grows_with_lambda_and_that_training_is_open():
    row = next(line for line in glossary._TABLE.splitlines() if "convergence bias" in line)
    assert "error bound grows with it" in row
    assert "undecided" in row


def test_the_solver_control_says_why_balanced_is_the_default():
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=60).switch_page(TRADE_OFF).run()
    (solver,) = [box for box in app.selectbox if box.label == "Solver"]
    assert "default because it is fast and all clients count" in solver.help
    assert "no run here shows that it trains better" in solver.help
