"""Each module has a test file that names it: by its own name, or by importing it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "upthread"
PACKAGES = ("core", "boundary", "agents", "store", "agent_stores", "integrations")

_CONFORMANCE = "the port's conformance suite runs whole on it"
_ADAPTER = "a part of one adapter: test_adapter.py, test_prompting.py and the conformance suite"
_SERVER = "a part of one adapter: test_server.py drives it, and tests/live the real one"

NOT_NAMED = {
    "agents/_connection.py": _ADAPTER,
    "agents/claude_code/connection.py": _ADAPTER,
    "agents/opencode/connection.py": _SERVER,
    "agent_stores/copies.py": "driven by the agents' repairs: test_histories.py, test_repair.py",
    "store/base.py": "the port; upthread.testing.store_conformance is its test",
    "store/postgres/store.py": _CONFORMANCE,
    "store/sql/parts.py": _CONFORMANCE,
    "store/sql/reads.py": _CONFORMANCE,
}
"""Modules that no test file names, and why."""

BY_BEHAVIOUR = {
    "runtime": "driven whole, through the front door: crashes, recoveries, leases, runs",
    "client": "the front door itself, which every test of runtime and surfaces goes through",
    "surfaces": "seen from outside only, as a person or a program sees them",
    "testing": "the suites and the model server: what they promise is tested in tests/testing",
}
"""Packages whose tests are named by what a user relies on, and why."""


def modules(package: str) -> list[Path]:
    found = (SOURCE / package).rglob("*.py")
    return sorted(path.relative_to(SOURCE) for path in found if not path.stem.startswith("__"))


MODULES = [module for package in PACKAGES for module in modules(package)]
TESTS = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}


def naming(module: Path) -> list[str]:
    """The test files that name a module, those of other packages left out."""
    package, own = module.parts[0], module.stem.lstrip("_")
    dotted = ".".join(("upthread", *module.with_suffix("").parts))
    return [
        path.name
        for path, text in TESTS.items()
        if path.relative_to(ROOT / "tests").parts[0] == package
        and (path.name == f"test_{own}.py" or dotted in text)
    ]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_module_has_a_test_file_that_names_it(module: Path):
    is_named = bool(naming(module))
    if module.as_posix() in NOT_NAMED:
        assert not is_named, f"{module} is named by a test file now: take it off the list"
    else:
        assert is_named, f"write tests/{module.parent}/test_{module.stem.lstrip('_')}.py"


def test_every_package_is_held_to_this_or_says_why_not():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == {*PACKAGES, *BY_BEHAVIOUR}
    assert all(BY_BEHAVIOUR.values())


def test_the_list_names_only_modules_that_exist_and_says_why():
    assert set(NOT_NAMED) <= {module.as_posix() for module in MODULES}
    assert all(NOT_NAMED.values())


@pytest.mark.parametrize(
    "module", [module for module in MODULES if module.parts[0] == "core"], ids=str
)
def test_a_module_of_the_core_is_covered_by_a_file_of_its_own(module: Path):
    if module.name not in {"commands.py", "events.py"}:  # values only: every playbook has them
        assert (ROOT / "tests" / module.parent / f"test_{module.name}").is_file()
