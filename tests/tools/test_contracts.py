"""An import that the architecture forbids fails `make check`, for every agent and backend."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "upthread"
PLANTED = "planted_by_a_test"

CORE_ALONE = "core: no I/O"
LAYERS = "Imports point inwards"
PORTS = "runtime sees ports"
AGENTS_APART = "Agents do not know each other"
STORES_APART = "Stores do not know each other"
FRAMEWORKS = "Only integrations know a framework"
INTEGRATIONS_APART = "Integrations do not know each other"
NEW = "brand_new"
"""A folder that is made beside the agents, and one beside the backends."""


def folders(layer: str) -> list[str]:
    """The folders of a layer that hold modules: the agents, or the backends."""
    return sorted(each.parent.name for each in (SOURCE / layer).glob("*/__init__.py"))


def circle(names: list[str]) -> list[tuple[str, str]]:
    """Each name beside the next, so that each once imports and is once imported."""
    return list(zip(names, [*names[1:], names[0]], strict=True))


AGENTS = folders("agents")
BACKENDS = folders("store")
OUTSIDE_CORE = sorted(
    each.stem if each.is_file() else each.name
    for each in SOURCE.iterdir()
    if each.suffix == ".py" or (each / "__init__.py").is_file()
    if each.name not in {"__init__.py", "__main__.py", "core", "errors.py"}
)
IMPURE = ("asyncio", "os", "socket", "tempfile", "time", "random", "logging", "httpx", "anyio")
PLANTS = [
    *((f"agents/{one}", f"upthread.agents.{other}", AGENTS_APART) for one, other in circle(AGENTS)),
    *((f"store/{one}", f"upthread.store.{other}", STORES_APART) for one, other in circle(BACKENDS)),
    *(("runtime", f"upthread.agents.{agent}", PORTS) for agent in AGENTS),
    *(("runtime", f"upthread.store.{each}", PORTS) for each in BACKENDS),
    *(("core", f"upthread.{layer}", CORE_ALONE) for layer in OUTSIDE_CORE),
    *(("core", module, CORE_ALONE) for module in IMPURE),
    *(
        (layer, framework, FRAMEWORKS)
        for layer in ("surfaces", "client", "runtime", "store")
        for framework in ("langgraph", "agents", "google")
    ),
    ("client", "upthread.integrations.on_record", LAYERS),
    (f"agents/{NEW}", f"upthread.agents.{AGENTS[0]}", AGENTS_APART),
    (f"store/{NEW}", f"upthread.store.{BACKENDS[0]}", STORES_APART),
]


def copied(place: Path) -> Path:
    """Copy what the check reads to a directory where it may be broken."""
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, place / "src" / "upthread", ignore=leave)
    shutil.copytree(ROOT / "tools", place / "tools", ignore=leave)
    shutil.copy(ROOT / "pyproject.toml", place)
    return place / "src" / "upthread"


def plant(source: Path, file: str, statement: str) -> None:
    path = source / file
    path.parent.mkdir(exist_ok=True)
    if path.parent.name == NEW:
        (path.parent / "__init__.py").touch()
    with path.open("a") as text:
        text.write(f"{statement}\n")


def report(source: Path) -> str:
    """Return what the check of the imports prints for a copy, which has to fail."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))],
        cwd=source.parents[1],
        env={**os.environ, "PYTHONPATH": str(source.parent), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the check prints of each contract when all forbidden imports are planted at once."""
    source = copied(tmp_path_factory.mktemp("copy"))
    for folder, imported, _ in PLANTS:
        plant(source, f"{folder}/{PLANTED}.py", f"import {imported}")
    plant(source, "agents/shared_by_a_test.py", "import upthread.agents.opencode")
    plant(source, "agents/codex/over_a_file.py", "import upthread.agents.shared_by_a_test")
    plant(source, "agents/codex/late.py", "def late():\n    import upthread.agents.acp")
    plant(source, "integrations/langgraph.py", "import upthread.integrations.google_adk")
    parts = re.split(r"^(.+)\n-{10,}\n", report(source), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def section(broken: dict[str, str], contract: str) -> str:
    (found,) = [text for title, text in broken.items() if title.startswith(contract)]
    return found


def test_every_agent_and_backend_is_looked_for():
    assert {"acp", "claude_code", "codex", "opencode", "rehearsal"} <= set(AGENTS)
    assert {"postgres", "sqlite"} <= set(BACKENDS)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("folder", "imported", "contract"),
    PLANTS,
    ids=[f"{folder.replace('/', '.')}-{imported}" for folder, imported, _ in PLANTS],
)
def test_a_planted_import_fails_the_check(broken, folder, imported, contract):
    module = f"upthread.{folder.replace('/', '.')}.{PLANTED}"
    line = re.compile(rf"{module}(:\d+ imports| ->) {imported}\b")
    assert line.search(section(broken, contract))


@pytest.mark.parametrize(
    ("contract", "imports"),
    [
        pytest.param(
            INTEGRATIONS_APART, "langgraph -> upthread.integrations.google_adk", id="integrations"
        ),
        pytest.param(AGENTS_APART, "codex.late -> upthread.agents.acp", id="in a function"),
        pytest.param(
            AGENTS_APART, "codex.over_a_file -> upthread.agents.shared_by_a_test", id="over a file"
        ),
    ],
)
def test_no_import_is_a_way_round_a_contract(broken, contract, imports):
    assert imports in section(broken, contract)
