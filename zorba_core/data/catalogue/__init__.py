"""The tasks of this package, a file each. A new one is listed in :mod:`zorba_core.data.tasks`."""
