"""The 17 classes of the 3x3 example."""

from app.screens.registry import Page

PAGE = Page("toy", "Toy", section="Understand", icon=":material/view_module:", uses_scenario=False)
