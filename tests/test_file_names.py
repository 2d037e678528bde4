"""Each module has a test file that names it, and each test file a module: so both are found."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("core", "runtime", "client", "agents", "store")

NOT_NAMED = {
    "core/commands.py": "values only; every playbook of test_recorder.py and test_stream.py has them",
    "core/events.py": "values only; every playbook has them, test_codec.py stores each kind",
    "agents/base.py": "the port; upthread.testing.agent_conformance is its test",
    "store/base.py": "the port; upthread.testing.store_conformance is its test",
}
"""Modules without a test file of their own, and why."""


def modules(package: str) -> list[Path]:
    source = ROOT / "src" / "upthread"
    found = (source / package).rglob("*.py")
    return sorted(path.relative_to(source) for path in found if not path.stem.startswith("__"))


def names_of(module: Path) -> set[str]:
    """The test files that count: its own, or its folder's, or a conformance suite's."""
    own = module.stem.lstrip("_")
    folder = module.parent.name
    return {f"test_{own}.py", f"test_{folder}_{own}.py"}


MODULES = [module for package in PACKAGES for module in modules(package)]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_module_has_a_test_file_that_names_it(module: Path):
    folder = ROOT / "tests" / module.parts[0]
    tests = {path.name for path in folder.rglob("test_*.py")}
    is_named = bool(names_of(module) & tests)
    if module.as_posix() in NOT_NAMED:
        assert not is_named, f"{module} has a test file now: take it off the list"
    else:
        assert is_named, f"write tests/{module.parent}/test_{module.stem.lstrip('_')}.py"


def test_the_list_names_only_modules_that_exist_and_says_why():
    assert set(NOT_NAMED) <= {module.as_posix() for module in MODULES}
    assert all(NOT_NAMED.values())
