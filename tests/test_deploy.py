"""The container's files name what exists. No container engine runs here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from zorba_core.cli import build_app
from zorba_core.federation.request import APP

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))


def test_the_image_runs_as_a_user_without_rights_with_a_health_check_and_its_runs_on_a_volume():
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+):", last, re.MULTILINE) == ["10001"]
    assert "/_stcore/health" in last.partition("HEALTHCHECK")[2]
    (volume,) = re.findall(r"^VOLUME (\S+)", last, re.MULTILINE)
    (runs,) = re.findall(r"ZORBA_RUNS=(\S+)", last)
    assert Path(runs).is_relative_to(volume)


def test_the_image_copies_what_the_wheel_is_built_from():
    ignored = (ROOT / "deploy/Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert [name for name in kept if not (ROOT / name).exists()] == []
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    assert {path.strip("/").partition("/")[0] for path in included} <= kept


def test_the_command_of_the_image_exists():
    (command,) = re.findall(r'^CMD \["zorba", "(\w+)"', DOCKERFILE, re.MULTILINE)
    assert command in {each.name for each in build_app().registered_commands}


@pytest.mark.parametrize("name", ["server", "client-1", "client-2", "run"])
def test_a_service_of_the_federation_uses_the_image_and_waits_for_services_that_exist(name):
    service = COMPOSE["services"][name]
    assert service["image"] == "zorba"
    assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])
    for volume in service.get("volumes", ()):
        source = volume.partition(":")[0]
        assert source in COMPOSE["volumes"] or (ROOT / "deploy" / source).is_file()


def test_the_run_has_settings_that_the_federation_knows_and_as_many_clients_as_there_are():
    default = COMPOSE["services"]["run"]["environment"]["RUN_CONFIG"].partition(":-")[2].rstrip("}")
    given = tomllib.loads(default.replace(" ", "\n"))
    settings = given.pop("settings")
    known = tomllib.loads((APP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    assert set(given) <= set(known)
    assert set(settings) <= set(known["settings"])
    assert given["clients"] == sum(name.startswith("client-") for name in COMPOSE["services"])
