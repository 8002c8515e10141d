"""Who trains what? Single cells by hand, Algorithm 1 step by step, the cut that proves gamma*."""

from app.screens.registry import Page

PAGE = Page("allocation", "Allocation", section="Plan", icon=":material/grid_on:")
