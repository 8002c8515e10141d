"""What does saved VRAM cost? Every method and the lower bound in one plot."""

from app.screens.registry import Page

PAGE = Page("tradeoff", "Trade-off", section="Plan", icon=":material/scatter_plot:", default=True)
