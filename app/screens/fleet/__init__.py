"""Which GPUs are there, how many blocks can each hold, who is too small?"""

from app.screens.registry import Page

PAGE = Page("fleet", "Fleet", section="Plan", icon=":material/memory:")
