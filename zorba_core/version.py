"""The version of the package, for its metadata and the configs of runs."""

__version__ = "0.2.0"
