"""A scenario as JSON, out and in. What comes in is data from outside: every field is checked and named when wrong."""

from __future__ import annotations

import json

from app.shared.scenario import Scenario
from app.shared.scenario_fields import KEYS, checked, used_fields
from zorba_core.errors import InvalidInputError
from zorba_core.files import to_json

KIND, VERSION = "zorba-scenario", 1
MAX_BYTES = 5_000_000


def scenario_to_json(scenario: Scenario) -> str:
    """One JSON object with the fields that count; a table of clients is a list of rows [client, GiB]."""
    fields = {name: getattr(scenario, name) for name in used_fields(scenario)}
    if scenario.fleet_kind == "table":
        fields["table"] = scenario.table
    return to_json({"kind": KIND, "version": VERSION, **fields}, indent=1) + "\n"


def scenario_from_json(text: str | bytes) -> Scenario:
    """The scenario that :func:`scenario_to_json` wrote. A field left out has its default.

    Raises:
        InvalidInputError: too large, no JSON, another kind of file, an unknown field, or a value out of range.
    """
    if len(text) > MAX_BYTES:
        raise InvalidInputError(f"the scenario has {len(text) / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB is read")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the scenario is not JSON ({str(error)[:120]}); give what 'Scenario as JSON' shows"
        ) from None
    if not isinstance(content, dict) or content.pop("kind", None) != KIND:
        raise InvalidInputError(f'this JSON is no scenario; one begins with {{"kind": "{KIND}", ...}}')
    version = content.pop("version", None)
    if version != VERSION:
        raise InvalidInputError(f"scenario version is {str(version)[:20]!r}; this dashboard reads version {VERSION}")
    unknown = sorted(set(content) - {*KEYS, "table"})
    if unknown:
        raise InvalidInputError(f"the scenario has an unknown field {unknown[0][:40]!r}; leave it out")
    return Scenario(**{name: checked(name, value) for name, value in content.items()})
