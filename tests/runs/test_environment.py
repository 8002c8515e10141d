from __future__ import annotations

import getpass
import platform
import socket

from zorba_core.engine.settings import Settings
from zorba_core.runs.record import environment_of


def test_without_git_the_commit_is_unknown_and_nothing_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    described = environment_of(Settings())
    assert (described["git_commit"], described["git_dirty"]) == (None, None)
    assert described["torch"]


def test_the_environment_names_no_host_and_no_user(monkeypatch):
    for module, function in [(platform, "node"), (socket, "gethostname"), (getpass, "getuser")]:
        monkeypatch.setattr(module, function, lambda: "secret-17")
    assert "secret-17" not in str(environment_of(Settings()))
