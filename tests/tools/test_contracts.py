"""An import that the architecture forbids fails `make check`, for every agent and backend."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "upthread"
PLANTED = "planted_by_a_test.py"

CORE_ALONE = "core: no I/O"
LAYERS = "Imports point inwards"
PORTS = "runtime sees ports"
AGENTS_APART = "Agents do not know each other"
STORES_APART = "Stores do not know each other"
SQL_BENEATH = "What SQL stores share knows none of them"
SHARED_BY_STORES = "sql"


def folders(layer: str) -> list[str]:
    """Those of a layer that hold modules: the agents, or the backends."""
    return sorted(each.parent.name for each in (SOURCE / layer).glob("*/__init__.py"))


def circle(names: list[str]) -> list[tuple[str, str]]:
    """Each beside the next: everyone is once who imports, and once who is imported."""
    return list(zip(names, [*names[1:], names[0]], strict=True))


AGENTS = folders("agents")
BACKENDS = [each for each in folders("store") if each != SHARED_BY_STORES]
OUTSIDE_CORE = sorted(
    each.stem if each.is_file() else each.name
    for each in SOURCE.iterdir()
    if each.suffix == ".py" or (each / "__init__.py").is_file()
    if each.name not in {"__init__.py", "__main__.py", "core", "errors.py"}
)
PLANTS = [
    *(("agents", one, f"agents.{other}", AGENTS_APART) for one, other in circle(AGENTS)),
    *(("store", one, f"store.{other}", STORES_APART) for one, other in circle(BACKENDS)),
    *(("runtime", "", f"agents.{agent}", PORTS) for agent in AGENTS),
    *(("store", SHARED_BY_STORES, f"store.{backend}", SQL_BENEATH) for backend in BACKENDS),
    *(("runtime", "", f"store.{each}", PORTS) for each in (*BACKENDS, SHARED_BY_STORES)),
    *(("core", "", layer, CORE_ALONE) for layer in OUTSIDE_CORE),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the check looks at, in a place where it may be broken."""
    copied = tmp_path_factory.mktemp("copy")
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, copied / "src" / "upthread", ignore=leave)
    shutil.copytree(ROOT / "tools", copied / "tools", ignore=leave)
    shutil.copy(ROOT / "pyproject.toml", copied)
    return copied


def lint(copy: Path) -> subprocess.CompletedProcess[str]:
    """Run the check of the imports as `make check` does, on the copy alone."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def broken(copy: Path, folder: str, statement: str) -> str:
    """What the check says with a module of one statement in a folder; it must have failed."""
    planted = copy / "src" / "upthread" / folder / PLANTED
    planted.write_text(f"{statement}\n")
    try:
        done = lint(copy)
    finally:
        planted.unlink()
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_every_agent_and_backend_is_looked_for():
    assert {"acp", "claude_code", "codex", "opencode", "rehearsal"} <= set(AGENTS)
    assert {"postgres", "sqlite"} <= set(BACKENDS)


def test_the_source_as_it_is_passes(copy: Path):
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("layer", "folder", "imported", "contract"),
    PLANTS,
    ids=[f"{layer}.{folder}".rstrip(".") + f"-{imported}" for layer, folder, imported, _ in PLANTS],
)
def test_a_planted_import_fails_the_check(copy, layer, folder, imported, contract):
    said = broken(copy, f"{layer}/{folder}", f"import upthread.{imported}")
    assert any(contract in line and "BROKEN" in line for line in said.splitlines()), said


@pytest.mark.parametrize("layer", ["surfaces", "client", "runtime", "store"])
@pytest.mark.parametrize("framework", ["langgraph", "agents", "google.adk"])
def test_only_integrations_may_import_a_framework(copy, layer, framework):
    assert "Only integrations know a framework BROKEN" in broken(copy, layer, f"import {framework}")


def test_an_integration_knows_no_other_and_nothing_knows_one(copy: Path):
    beside = copy / "src" / "upthread" / "integrations" / "langgraph.py"
    before = beside.read_text()
    beside.write_text(f"{before}\nimport upthread.integrations.google_adk\n")
    try:
        said = lint(copy).stdout
    finally:
        beside.write_text(before)
    assert "Integrations do not know each other BROKEN" in said
    assert f"{LAYERS}" in broken(copy, "client", "import upthread.integrations.folds")


@pytest.mark.parametrize(
    "module", ["asyncio", "os", "socket", "tempfile", "time", "random", "logging", "httpx", "anyio"]
)
def test_core_may_import_nothing_that_it_is_not_allowed(copy, module):
    said = broken(copy, "core", f"import {module}")
    assert f"upthread.core.planted_by_a_test:1 imports {module}" in said


def test_an_import_within_a_function_counts_too(copy: Path):
    said = broken(copy, "agents/codex", "def late():\n    import upthread.agents.opencode")
    assert AGENTS_APART in said


def test_modules_that_import_each_other_fail_the_check(copy: Path):
    other = copy / "src" / "upthread" / "core" / "other_planted_by_a_test.py"
    other.write_text("import upthread.core.planted_by_a_test\n")
    try:
        late = "def late():\n    import upthread.core.other_planted_by_a_test"
        said = broken(copy, "core", late)
    finally:
        other.unlink()
    assert "No module imports itself over others BROKEN" in said
    assert "upthread.core.other_planted_by_a_test <- upthread.core.planted_by_a_test" in said


def test_a_new_agent_and_a_new_backend_are_held_to_it_from_their_first_line(copy: Path):
    for layer, contract, known in (
        ("agents", AGENTS_APART, AGENTS[0]),
        ("store", STORES_APART, BACKENDS[0]),
    ):
        folder = copy / "src" / "upthread" / layer / "brand_new"
        folder.mkdir()
        (folder / "__init__.py").touch()
        try:
            said = broken(copy, f"{layer}/brand_new", f"import upthread.{layer}.{known}")
        finally:
            shutil.rmtree(folder)
        assert f"{contract} BROKEN" in said


def test_a_file_beside_the_agents_is_no_way_from_one_to_another(copy: Path):
    shared = copy / "src" / "upthread" / "agents" / "shared_by_a_test.py"
    shared.write_text("import upthread.agents.opencode\n")
    try:
        said = broken(copy, "agents/codex", "import upthread.agents.shared_by_a_test")
    finally:
        shared.unlink()
    assert f"{AGENTS_APART} BROKEN" in said


def test_a_contract_that_holds_for_nothing_is_a_mistake(copy: Path):
    settings = copy / "pyproject.toml"
    kept = settings.read_text()
    settings.write_text(
        kept.replace('modules = ["upthread.store.*"]', 'modules = ["upthread.co.*"]')
    )
    try:
        done = lint(copy)
    finally:
        settings.write_text(kept)
    assert done.returncode == 1
    assert "no folder is there for upthread.co.*" in done.stdout + done.stderr
