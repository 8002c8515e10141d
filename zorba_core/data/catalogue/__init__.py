"""The tasks of this package, a TOML file each, listed in :mod:`zorba_core.data.tasks`. Code stands beside a file where
its rows need some: the grammar of toy-reviews, the halves of SST-2's phrases."""
