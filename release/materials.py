"""The bill of materials: what is installed with logstore, and with each of its extras, as CycloneDX.

pip says which packages an install would take, from the metadata that they publish, and installs none of them. Ours
is the subject of the bill and no entry of it. It has no package URL: that of its name on the public index is a
stranger's package, and a look-up of known weaknesses by that URL would find the stranger's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from release.commands import ReleaseError, run, tool

#: All extras; packages for work on the project are in dependency groups, which no wheel has.
EXTRAS = ("snappy", "tables", "cli", "metrics", "security", "spark")


class Package(NamedTuple):
    """One package that an install takes."""

    name: str
    version: str
    licence: str  #: an SPDX expression, or what its author says; "" if nothing
    digests: Mapping[str, str]  #: of the file, by algorithm
    extras: frozenset[str]  #: which of ours bring it; "" is none of them: it comes with logstore itself
    needs: frozenset[str]  #: names of packages that it may need


def resolved(python: Path, wheel: Path) -> dict[str, Package]:
    """What an install of the wheel takes, without extras and with each, by ``name==version``. Without ours."""
    found: dict[str, Package] = {}
    for extra in ("", *EXTRAS):
        what = f"{wheel}[{extra}]" if extra else str(wheel)
        # By a pip that knows License-Expression (25.1), which that of the Python need not.
        command = (
            *(sys.executable, "-m", "pip", "--python", python, "install", "--dry-run", "--ignore-installed"),
            *("--quiet", "--report", "-", what),
        )
        for package in packages_of(json.loads(run(*command)), extra):
            # Two extras may resolve to different versions of one package; the bill lists both.
            key = f"{package.name}=={package.version}"
            extras = found[key].extras if key in found else frozenset()
            found[key] = package._replace(extras=package.extras | extras)
    return found


def packages_of(report: Mapping[str, Any], extra: str) -> list[Package]:
    """The packages of one of pip's installation reports, but for ours.

    Source: https://pip.pypa.io/en/stable/reference/installation-report/
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found = []
    for each in report["install"]:
        about = each["metadata"]
        name = canonicalize_name(about["name"])
        if name == "logstore":
            continue
        needs = (canonicalize_name(Requirement(text).name) for text in about.get("requires_dist", []))
        digests = each["download_info"].get("archive_info", {}).get("hashes", {})
        found.append(
            Package(name, about["version"], licence_of(about), digests, frozenset([extra]), frozenset(needs))
        )
    return found


def licence_of(about: Mapping[str, Any]) -> str:
    """What a package's metadata say of its licence: the expression, else the classifiers, else a first line."""
    if about.get("license_expression"):
        return str(about["license_expression"])
    marks = [text.rpartition(" :: ")[2] for text in about.get("classifier", []) if text.startswith("License :: ")]
    if marks:
        return " AND ".join(marks)
    return str(about.get("license", "")).strip().split("\n")[0][:200]


def bill(version: str, files: Iterable[tuple[str, str]], packages: Mapping[str, Package], seconds: int) -> str:
    """The bill as JSON; ``files`` are names and SHA-256 of what is released, ``seconds`` the time of its commit."""
    from datetime import UTC, datetime
    from uuid import NAMESPACE_URL, uuid5

    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from packageurl import PackageURL

    released = [
        ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(name),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )
        for name, digest in files
    ]
    kind = ComponentType.LIBRARY
    ours = Component(
        name="logstore",
        version=version,
        type=kind,
        bom_ref="logstore",
        external_references=released,
    )
    made = Bom(serial_number=uuid5(NAMESPACE_URL, f"logstore {version} {seconds}"))
    made.metadata.timestamp = datetime.fromtimestamp(seconds, UTC)
    made.metadata.component = ours
    known = {}
    for key, package in sorted(packages.items()):
        licences = [LicenseFactory().make_from_string(package.licence)] if package.licence else []
        digests = [package.digests["sha256"]] if "sha256" in package.digests else []
        known[key] = Component(
            name=package.name,
            version=package.version,
            type=kind,
            bom_ref=key,
            purl=PackageURL("pypi", None, package.name, package.version),
            licenses=licences,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in digests],
            properties=[
                Property(name="logstore:extra", value=extra or "(none)") for extra in sorted(package.extras)
            ],
        )
        made.components.add(known[key])
    made.register_dependency(ours, known.values())
    for key, component in known.items():
        needed = [other for name, other in known.items() if packages[name].name in packages[key].needs]
        made.register_dependency(component, needed)
    text = str(make_outputter(made, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2))
    _check(text)
    return text + "\n"


def _check(text: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ReleaseError(f"the bill of materials is no CycloneDX: {problem}")


def requirements(packages: Iterable[Package]) -> str:
    """The packages as pip pins them. Ours is not among them: its name is looked up as a stranger's."""
    return "".join(sorted(f"{package.name}=={package.version}\n" for package in packages))


def audit(packages: Mapping[str, Package], work: Path) -> str | None:
    """Look known weaknesses up; what kept it from being asked, or None.

    Each extra by itself: two of them may take different versions of one package, which pip-audit refuses. A package
    that the index of weaknesses does not have has not been asked for.

    Raises:
        ReleaseError: there are some.
    """
    for extra in ("", *EXTRAS):
        pinned = work / f"materials{extra and '-' + extra}.txt"
        pinned.write_text(requirements(each for each in packages.values() if extra in each.extras))
        try:
            run(
                tool("pip-audit"),
                *("--requirement", pinned, "--no-deps", "--disable-pip", "--strict"),
                *("--progress-spinner", "off", "--timeout", "20"),
            )
        except ReleaseError as error:
            if "vulnerabilit" in str(error) and "Found" in str(error):
                raise
            return str(error).strip().splitlines()[-1][:120]
    return None
