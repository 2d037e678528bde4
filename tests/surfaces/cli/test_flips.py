"""A byte of the record flips: either it is said, or everything shown is what it was before."""

import json
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from tests.support.sets import EXTENDED, SOAK

from upthread.client.project import Project
from upthread.client.project_opener import open_project
from upthread.errors import UpthreadError
from upthread.store.sqlite import SqliteStore
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.program import main
from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.formats import json as shape

pytestmark = pytest.mark.timeout(420)  # one fixture makes a record with many programs

FLIPS, FLIPS_SOAK = 8, 1_000
SEED = 18
RUN, ROLE = "p", "w/planner"
DAMAGED = "damaged:"
"""What begins a reader's word that the record is not what was recorded."""


@pytest.fixture(scope="module")
def recorded(make_upthread, tmp_path_factory):
    """A record of two workstreams, one of them a run that went to its end; at rest."""
    up = make_upthread(tmp_path_factory.mktemp("flips"))
    up.configure('agent = "rehearsal"\n[permissions]\nedit = "allow"\nexecute = "allow"\n')
    up("tell", ROLE, "Count the sheep. [[rehearse: read README.md]]")
    up("tell", ROLE, "And [[rehearse: write a.txt a]] the goats.")
    up("tell", "w/nurse", "Hi.", code=None)
    up("tell", ROLE, "fresh: And the cows.")
    up("run", RUN, "--spec", "spec.md", code=None)
    up("answer", RUN, "opening", "Hi", code=None)
    up("answer", RUN, "stranger", "friend", code=None)
    up("run", RUN, code=None)
    return up


@pytest.fixture(params=["plain", pytest.param("encrypted", marks=EXTENDED)])
def record(recorded, request, tmp_path, monkeypatch):
    """The file of a copy of the record, this process being one that reads it."""
    home = tmp_path / "upthread"
    home.mkdir(mode=0o700)
    path = home / "upthread.db"
    for file in (recorded.home / "upthread").iterdir():
        if file.is_file():
            (home / file.name).write_bytes(file.read_bytes())
            (home / file.name).chmod(0o600)
    for name, value in recorded.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UPTHREAD_HOME", str(home))
    monkeypatch.chdir(recorded.directory)
    SqliteStore(path).close()
    if request.param == "encrypted":
        (home / "config.toml").write_text(f'encryption_key = "file:{home / "encryption-key"}"\n')
        assert main(["encrypt", "--yes"]) == 0
    return path


async def _ls(project: Project) -> object:
    return await shapes.workstreams(project, await project.workstreams())


async def _show(project: Project) -> object:
    view = await project.show(RUN)
    return shapes.workstream(view, await project.resume_commands(view.roles))


async def _show_role(project: Project) -> object:
    view = await project.role(ROLE)
    commands = await project.resume_commands([view])
    return shapes.role(view, commands), await project.conversation(ROLE)


async def _effects(project: Project) -> object:
    views = await project.workstreams()
    conversations = [role.conversation for view in views for role in view.roles]
    return [shapes.effect(each) for each in await project.effects(conversations)]


async def _why(project: Project) -> object:
    return shapes.why(await project.why(ROLE))


async def _audit(project: Project) -> object:
    audits = [await project.audit(each) for each in ("w", RUN)]
    return [json.loads("".join(shape.in_pieces(shape.whole(each), dict))) for each in audits]


READERS = (_ls, _show, _show_role, _effects, _why, _audit)


async def _told(project: Project, reader: Callable[[Project], Awaitable[object]]) -> str:
    """Return what is shown, or the error that says why it is not."""
    try:
        told = json.dumps(plain(await reader(project)), default=repr)
    except UpthreadError as error:
        return f"{DAMAGED} {error}"
    is_said = '"first_unverified_seq": ' in told.replace('"first_unverified_seq": null', "")
    return f"{DAMAGED} {told}" if is_said else told


async def _shown() -> tuple[str, ...]:
    try:
        async with open_project(".") as project:
            return tuple([await _told(project, reader) for reader in READERS])
    except UpthreadError as error:
        return (f"{DAMAGED} {error}",) * len(READERS)


def _flipped(path: Path, whole: bytes, chance: random.Random) -> int:
    """Write a record with one byte of it changed, and return which."""
    for beside in (f"{path}-wal", f"{path}-shm"):
        Path(beside).unlink(missing_ok=True)
    place = chance.randrange(len(whole))
    damaged = bytearray(whole)
    damaged[place] ^= chance.randrange(1, 256)
    path.write_bytes(damaged)
    return place


def flip(record: Path, flips: int, *, seed: int = SEED) -> Counter[str]:
    """Return how many flips were said, and how many changed nothing that is shown.

    Of those that were said, `told by another` counts where some reader showed something else and
    only another one said that the record is damaged. `unnoticed` holds where each byte stood.
    """
    chance = random.Random(seed)
    whole = record.read_bytes()
    before = anyio.run(_shown)
    assert not [told for told in before if told.startswith(DAMAGED)]
    assert before == anyio.run(_shown), "it would differ by itself"
    found: Counter[str] = Counter({"found": 0, "nothing differs": 0, "told by another": 0})
    for _ in range(flips):
        place = _flipped(record, whole, chance)
        now = anyio.run(_shown)
        differing = [told for told, was in zip(now, before, strict=True) if told != was]
        said = [told for told in differing if told.startswith(DAMAGED)]
        if differing and not said:
            found[f"unnoticed: byte {place}, page {place // 4_096}"] += 1
        else:
            found["found" if differing else "nothing differs"] += 1
            found["told by another"] += len(said) < len(differing)
    return found


@pytest.mark.parametrize(
    "flips",
    [
        FLIPS,
        pytest.param(FLIPS_SOAK, marks=[SOAK, pytest.mark.timeout(3600)]),
    ],
)
def test_a_flipped_byte_is_said_or_changes_nothing_that_is_shown(record, flips, capsys):
    found = flip(record, flips)
    with capsys.disabled():
        sys.stdout.write(f"\nflips in a record of {record.stat().st_size} bytes: {dict(found)}\n")
    assert not [told for told in found if told.startswith("unnoticed")]
    assert found["found"]
