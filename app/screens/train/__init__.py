"""Fine-tune with the chosen allocation, in a separate process."""

from app.screens.registry import Page

PAGE = Page("train", "Train", section="Run", icon=":material/model_training:", sidebar_first=True)
