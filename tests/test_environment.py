"""pyproject.toml, requirements.lock and environment.yml name the same packages at the same versions."""

import re
import tomllib
from pathlib import Path

import pytest
import rattler
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]

#: conda-forge's name of a package, where it is another than PyPI's.
CONDA_NAMES = {"torch": "pytorch"}


def direct_requirements():
    """Every requirement that pyproject.toml names, by canonical name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, lines)}


def lock_lines():
    return (ROOT / "requirements.lock").read_text(encoding="utf-8").split("\n")[:-1]


def locked_versions():
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lock_lines())}


def environment_versions():
    """Version of each package in environment.yml by canonical PyPI name; conda's specifications read by rattler."""
    pypi_names = {conda: name for name, conda in CONDA_NAMES.items()}
    versions = {}
    for entry in yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]:
        if isinstance(entry, dict):
            for line in entry["pip"]:
                if not line.startswith("--"):
                    name, version = line.split("==")
                    versions[canonicalize_name(name)] = version
            continue
        specification = rattler.MatchSpec(entry)
        name = specification.name.normalized
        version = None if specification.version is None else specification.version.removesuffix(".*")
        versions[pypi_names.get(name, name)] = version
    return versions


def test_lock_pins_every_package_and_nothing_local():
    for line in lock_lines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line), f"{line!r} is not NAME==VERSION"
    assert locked_versions()["torch"] == "2.13.0"


def test_lock_satisfies_pyproject():
    locked = locked_versions()
    for name, requirement in direct_requirements().items():
        assert name in locked, f"{name} is required but not locked: run `make lock`"
        assert requirement.specifier.contains(Version(locked[name]), prereleases=True), (
            f"{requirement} != {locked[name]}"
        )


def test_environment_names_and_versions_follow_the_lock():
    environment = environment_versions()
    locked = locked_versions()
    assert set(environment) - {"python", "pip"} == set(direct_requirements())
    for name in direct_requirements():
        assert environment[name] == locked[name], f"{name}: environment.yml and requirements.lock differ"


def test_environment_python_is_supported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = Requirement(f"python{project['requires-python']}").specifier
    assert supported.contains(environment_versions()["python"])


@pytest.mark.parametrize(("entry", "other"), [("pytorch=2.13.0", "2.12.0"), ("jupyter-book=1.0.4.post1", "2.0.0")])
def test_a_specification_matches_only_its_version(entry, other):
    specification = rattler.VersionSpec(rattler.MatchSpec(entry).version)
    assert specification.matches(rattler.Version(entry.split("=")[1]))
    assert not specification.matches(rattler.Version(other))
