"""My cards, my model, my data: who can take part, what a round costs, rehearse it, deploy it."""

from app.screens.registry import Page

PAGE = Page(
    "start", "My fleet", section="Plan", icon=":material/home:", default=True, uses_scenario=False, main="my_cards"
)
