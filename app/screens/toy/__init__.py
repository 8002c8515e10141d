"""The toy page."""
