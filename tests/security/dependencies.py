"""The pinned packages: a bill of materials, and a comparison with advisories that are kept offline. Run by hand::

    python -m tests.security.dependencies     # writes artifacts/sbom.json; exit status 1 where a pin has an advisory

The list is of known weaknesses of packages that this project uses, with the version that has the cure. It is as old as
its ``as_of`` says, which is printed, with a notice from a year on: where there is a network,
``pip-audit -r constraints.txt`` knows of later ones.
"""

from __future__ import annotations

import json
import sys
import uuid
from datetime import date
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PINS, ADVISORIES, SBOM = (
    ROOT / "constraints.txt",
    Path(__file__).with_name("advisories.json"),
    ROOT / "artifacts" / "sbom.json",
)


_OLD_DAYS = 365


def pins() -> dict[str, str]:
    """Version by canonical name, of every line of constraints.txt.

    Raises:
        ValueError: a line is no pin, or its package has one already.
    """
    lines = [line.split("#")[0].strip() for line in PINS.read_text(encoding="utf-8").splitlines()]
    found = {}
    for requirement in (Requirement(line) for line in lines if line):
        (pin,) = requirement.specifier
        if pin.operator != "==":
            raise ValueError(f"{requirement} is no pin")
        name = canonicalize_name(requirement.name)
        if name in found:
            raise ValueError(f"{requirement} is a second pin of {name}, after {found[name]}; leave one of them")
        found[name] = pin.version
    return found


def known_weaknesses(versions: dict[str, str]) -> tuple[list[str], list[str]]:
    """(a line for each pin below the version with the cure; a line for each without a cure, which is accepted)."""
    open_, accepted = [], []
    for row in json.loads(ADVISORIES.read_text(encoding="utf-8"))["advisories"]:
        version = versions.get(canonicalize_name(row["package"]))
        if version is None:
            continue
        if row["fixed_in"] is None:
            accepted.append(f"{row['package']} {version}: {row['id']}, {row['what']}")
        elif Version(version) < Version(row["fixed_in"]):
            open_.append(f"{row['package']} {version}: {row['id']}, {row['what']}; give {row['fixed_in']} or later")
    return open_, accepted


def age_of_list(today: date) -> str:
    """How old the list of advisories is; a notice where that is a year or more."""
    as_of = json.loads(ADVISORIES.read_text(encoding="utf-8"))["as_of"]
    days = (today - date.fromisoformat(as_of)).days
    line = f"advisories as of {as_of}, {days} days old"
    return line if days < _OLD_DAYS else f"notice: {line}; run pip-audit -r constraints.txt, and add what it names"


def bill_of_materials(versions: dict[str, str]) -> dict[str, Any]:
    """CycloneDX 1.5, the same bytes for the same pins."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from packageurl import PackageURL

    components = [
        Component(
            name=name, version=version, type=ComponentType.LIBRARY, bom_ref=f"{name}@{version}",
            purl=PackageURL("pypi", name=name, version=version),
        )
        for name, version in sorted(versions.items())
    ]  # fmt: skip
    name = ";".join(f"{name}=={version}" for name, version in sorted(versions.items()))
    bom = Bom(components=components, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, name))
    content = json.loads(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_5).output_as_string())
    content["metadata"] = {"component": {"type": "application", "name": "zorba-core"}}  # without the time of making
    return content


def main() -> int:
    versions = pins()
    SBOM.write_text(json.dumps(bill_of_materials(versions), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    open_, accepted = known_weaknesses(versions)
    for line in accepted:
        print(f"accepted: {line}")
    for line in open_:
        print(f"OPEN: {line}", file=sys.stderr)
    print(age_of_list(date.today()))
    print(f"{len(versions)} pins, {len(open_)} with a known weakness")
    return 1 if open_ else 0


if __name__ == "__main__":
    sys.exit(main())
