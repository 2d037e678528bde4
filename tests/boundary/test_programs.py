"""Programs: which one is started, what it is given, and what a module of ours can import."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.world import eventually, git, make_repository

from upthread.boundary import programs
from upthread.boundary.programs import GivenUpError, environments_above, heeding, is_given_up

PACKAGE = Path(programs.__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with programs of its own, and a home beside it with the real ones."""
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "clone" / "bin").mkdir(parents=True)
    (tmp_path / "clone" / ".git").mkdir()
    for place in (tmp_path / "clone", tmp_path / "clone" / "bin", tmp_path / "home" / "bin"):
        program(place / "agent")
    return tmp_path / "clone"


def program(path: Path, first: str = "#!/bin/sh") -> Path:
    path.write_text(f"{first}\n")
    path.chmod(0o755)
    return path


def look(clone: Path, *entries: str, name: str = "agent", outside: str = "") -> str | None:
    environment = {"PATH": ":".join(entries), "HOME": str(clone.parent / "home")}
    return programs.absolute_program(name, environment, outside=(outside or str(clone),))


# --- which program ------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin", "../clone/bin"])
def test_what_a_relative_entry_of_path_leads_to_is_not_looked_at(clone, entry, monkeypatch):
    monkeypatch.chdir(clone)
    real = str(clone.parent / "home" / "bin")
    assert look(clone, entry) is None
    assert look(clone, entry, real, entry) == f"{real}/agent"


def test_no_program_of_the_working_tree_is_taken_however_path_leads_there(clone):
    home = clone.parent / "home"
    (home / "to-clone").symlink_to(clone / "bin")
    (home / "linked").mkdir()
    (home / "linked" / "agent").symlink_to(clone / "agent")
    (clone / "out").symlink_to(home / "bin")
    (clone.parent / "way").symlink_to(clone)
    ways = [clone, clone / "bin", clone / "bin" / "..", home / "to-clone", home / "linked"]
    for way in [*ways, clone / "out", clone.parent / "way" / "bin"]:
        assert look(clone, str(way)) is None, way
        assert look(clone, str(way), f"{home}/bin") == f"{home}/bin/agent"


def test_the_whole_repository_counts_and_one_that_was_made_within_hides_none_of_it(clone):
    inner = clone / "packages" / "app"
    (inner / ".git").mkdir(parents=True)
    assert look(clone, str(clone / "bin"), outside=str(inner)) is None
    assert look(clone, str(clone / "bin"), outside=str(clone / "packages")) is None


def test_in_a_linked_worktree_no_program_of_the_repository_it_is_of_is_taken(clone):
    work = clone.parent / "home" / "worktrees" / "spec-1"
    shutil.rmtree(clone / ".git")
    git(make_repository(clone), "worktree", "add", "-q", "--detach", str(work))
    for way in (clone, clone / "bin"):
        assert look(clone, str(way), f"{clone.parent}/home/bin", outside=str(work)) == (
            f"{clone.parent}/home/bin/agent"
        )
    assert look(clone, str(clone), outside=str(work / "packages")) is None
    (work / ".git").write_text(f"gitdir: {clone}/.git/worktrees/none\n")
    assert look(clone, str(work), outside=str(work)) is None


def test_a_working_directory_that_is_gone_brings_no_program(clone, monkeypatch):
    gone = clone / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert look(clone, f"{clone.parent}/home/bin", outside=os.curdir) is not None


def test_somebody_at_work_in_their_whole_home_still_finds_what_they_installed(clone):
    home = clone.parent / "home"
    (home / ".git").mkdir()
    assert look(clone, f"{home}/bin", outside=str(home)) == f"{home}/bin/agent"
    assert look(clone, f"{home}/bin", outside="/") == f"{home}/bin/agent"
    project = home / "project"
    (project / "bin").mkdir(parents=True)
    program(project / "bin" / "agent")
    assert look(clone, f"{project}/bin", f"{home}/bin", outside=str(project)) == f"{home}/bin/agent"


def test_a_whole_path_is_what_somebody_meant_and_a_relative_one_with_a_slash_is_nothing(clone):
    assert look(clone, name=str(clone / "agent")) == str(clone / "agent")
    assert look(clone, name=str(clone / "none")) is None
    for name in ("./agent", "bin/agent", ""):
        assert look(clone, str(clone), "/", name=name) is None


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ("#!/usr/bin/env node", []),
        ("#!/usr/bin/env -S node --flag", ["--flag"]),
        ("#! /usr/bin/env node", []),
    ],
)
def test_a_scripts_interpreter_is_looked_up_like_any_program(clone, first, options):
    real = clone.parent / "home" / "bin"
    script = program(real / "npm-agent", first)
    program(clone / "bin" / "node")
    environment = {"PATH": f"{clone}/bin:{real}", "HOME": str(clone.parent / "home")}
    command = ("npm-agent", "serve")
    assert programs.absolute_command(command, environment, outside=(str(clone),)) is None
    node = program(real / "node")
    found = programs.absolute_command(command, environment, outside=(str(clone),))
    assert found == [str(node), *options, str(script), "serve"]


def test_what_is_no_script_of_env_is_started_as_it_is(clone):
    environment = {"PATH": f"{clone.parent}/home/bin", "HOME": str(clone.parent / "home")}
    found = programs.absolute_command(("agent", "acp"), environment, outside=(str(clone),))
    assert found == [f"{clone.parent}/home/bin/agent", "acp"]
    found = programs.absolute_command((sys.executable, "-V"), environment, outside=(str(clone),))
    assert found == [sys.executable, "-V"]


# --- what it is given ---------------------------------------------------------------------------


def test_of_an_agents_environment_a_process_of_ours_is_given_what_is_named():
    named = {"HOME": "/h", "UPTHREAD_DB": "postgres:", "PGHOST": "h"}
    others = ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "GIT_DIR", "NODE_OPTIONS", "BASH_ENV")
    given = {**named, **dict.fromkeys((*others, "GIT_SSH_COMMAND"), "./x")}
    found = programs.own_environment({**given, "PATH": ".:/usr/bin::bin:/bin"})
    assert found == {**named, "PATH": "/usr/bin:/bin"}


# --- what it can import -------------------------------------------------------------------------


def own(clone: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=clone,
        env={"PATH": os.environ["PATH"], "HOME": str(clone.parent / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_module_of_ours_runs_as_this_same_upthread_in_an_editable_install(clone):
    (clone / "upthread.py").write_text("raise SystemExit('CANARY')\n")
    done = own(clone, *programs.own_module("upthread", "--help"), PYTHONPATH=".")
    assert done.returncode == 0, done.stderr
    assert "Usage: upthread" in done.stdout


def test_one_that_was_installed_where_isolation_does_not_look_runs_all_the_same(clone):
    """As `pip install --user` or `--target` leaves it: all in one directory, named by nobody."""
    target = clone.parent / "site"
    target.mkdir()
    (target / "upthread").symlink_to(PACKAGE / "upthread")
    copied = target / "upthread-copy"
    copied.mkdir()
    (copied / "upthread").mkdir()
    for each in (PACKAGE / "upthread").iterdir():
        (copied / "upthread" / each.name).symlink_to(each)
    (copied / "upthread" / "boundary").unlink()
    (copied / "upthread" / "boundary").mkdir()
    for each in (PACKAGE / "upthread" / "boundary").iterdir():
        if each.is_file():
            (copied / "upthread" / "boundary" / each.name).write_bytes(each.read_bytes())
    launcher = copied / "upthread" / "boundary" / "isolated.py"
    (copied / "upthread" / "where.py").write_text("import upthread\nprint(upthread.__file__)\n")
    done = own(clone, sys.executable, "-I", str(launcher), "upthread.where")
    assert done.stdout.strip() == str(copied / "upthread" / "__init__.py"), done.stderr


def test_only_modules_of_upthread_are_run():
    done = own(Path.cwd(), *programs.own_module("timeit"))
    assert done.returncode != 0
    assert "upthread's own" in done.stderr


def test_the_working_directory_is_taken_off_the_path_unless_upthread_lies_there(clone, monkeypatch):
    monkeypatch.chdir(clone)
    (clone.parent / "way").symlink_to(clone)
    path = ["", str(clone), str(clone.parent / "way"), str(clone / "bin"), "/usr/lib"]
    programs.forget_working_directory(path)
    assert path == [str(clone / "bin"), "/usr/lib"]
    monkeypatch.chdir(PACKAGE)
    path = ["", str(PACKAGE)]
    programs.forget_working_directory(path)
    assert path == ["", str(PACKAGE)]


# --- the processes above this one: what they were started with, the nearest first -----------------


SHOW = (
    "import json; from upthread.boundary.programs import environments_above as above; "
    "print(json.dumps([each.get('PLACE') for each in above()]))"
)

WITH_PROC = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="this system does not tell"
)


@WITH_PROC
def test_each_process_above_is_told_with_what_it_was_started_with():
    inner = ["sh", "-c", '"$@"; true', "sh", "env", "-i", sys.executable, "-c", SHOW]
    outer = ["sh", "-c", '"$@"; true', "sh", "env", "PLACE=inner", *inner]
    environment = {**os.environ, "PLACE": "outer"}
    told = subprocess.run(outer, env=environment, check=True, capture_output=True, text=True)
    assert json.loads(told.stdout)[:2] == ["inner", "outer"]


@WITH_PROC
def test_our_own_environment_is_none_of_those_above(monkeypatch):
    monkeypatch.setenv("UPTHREAD_TEST_OF_ANCESTRY", "1")
    assert all("UPTHREAD_TEST_OF_ANCESTRY" not in each for each in environments_above())


# --- A git that somebody waits for ends with the waiting: Ctrl-C and a cancellation reach it ------


ANSWERED_S = 45.0  # less than the git that does not answer sleeps


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that says which process it is, and no more."""
    told = tmp_path / "told"
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {told}.new\nmv {told}.new {told}\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return told


def started(told: Path) -> int:
    eventually(told.exists)
    return int(told.read_text())


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.extended
def test_ctrl_c_is_answered_while_git_does_not_answer(root, slow, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "upthread", "-C", str(root), "ls"],
        env={**os.environ, "UPTHREAD_HOME": str(tmp_path / "home")},
        start_new_session=True,  # as no terminal would: git itself hears nothing
        stderr=subprocess.PIPE,
    ) as running:
        try:
            git = started(slow)
            running.send_signal(signal.SIGINT)
            _, complained = running.communicate(timeout=ANSWERED_S)
        finally:
            running.kill()
    assert (running.returncode, complained.strip()) == (130, b"interrupted")
    assert not is_there(git)


def test_only_what_is_done_within_is_given_up() -> None:
    given_up = threading.Event()
    with heeding(given_up):
        assert not is_given_up()
        given_up.set()
        assert is_given_up()
    assert not is_given_up()
    assert not issubclass(GivenUpError, OSError)  # nobody takes it for a fault of the repository


def test_a_process_that_opens_and_closes_other_files_is_seen_to_use_one(tmp_path):
    (held := tmp_path / "held").touch()
    code = f"import os; keep = open({str(held)!r}); print(flush=True)"
    code += "\nwhile True: [os.close(each) for each in [os.open('.', 0) for _ in range(60)]]"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy:
        next(iter(busy.stdout or ()))
        seen = [[pid for _, pid, _ in programs.users_of(held)] for _ in range(40)]
        busy.kill()
    assert seen == [[busy.pid]] * 40
