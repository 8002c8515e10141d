"""The allocation page."""
