"""What a repository's files may lead to: nothing but ordinary files of its own, and at once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED
from tests.support.trusting import agree

from upthread.config import FOLDER_NAMES_MAX, Settings, load_settings
from upthread.core.roles.limits import in_words
from upthread.errors import ConfigError

MEMORY_KIB_MAX = 1024 * 1024
ROLE = "---\nname: planner\n---\nYou are ours.\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "clone" / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / "secret.md").write_text(ROLE)
    (tmp_path / "secret.toml").write_text('agent = "rehearsal"\n')
    return tmp_path / "clone"


def settings(clone: Path) -> Settings:
    """The settings as they are where a person has agreed to what the roles are told."""
    home = clone.parent / "home"
    agree(clone, home)
    return load_settings(clone, environment={"UPTHREAD_HOME": str(home)})


def role_file(clone: Path) -> Path:
    return clone / ".claude" / "agents" / "planner.md"


def fault_of_planner(clone: Path) -> str:
    found = settings(clone)
    assert found.role("constructor").instructions, "who uses another role is not kept from it"
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        found.role("planner")
    assert caught.value.hint
    return str(caught.value)


OUT = [
    *("/proc/self/environ", "/etc/shadow", "/dev/zero", "/dev/stdin", "../../../secret.md"),
    *("/proc/self/root/etc/hostname", "/dev/fd/0"),
]


@pytest.mark.parametrize("target", OUT)
def test_a_role_file_that_leads_out_is_a_fault_of_that_role_alone(clone, target):
    role_file(clone).symlink_to(target)
    assert "leads out of" in fault_of_planner(clone)


def test_a_pipe_in_a_role_files_place_is_one_too(clone):
    os.mkfifo(role_file(clone))
    assert "it is a pipe" in fault_of_planner(clone)


def test_so_is_a_file_of_any_size_a_directory_and_a_circle(clone):
    with role_file(clone).open("wb") as file:
        file.truncate(2**40)
    assert "more than 1048576 bytes" in fault_of_planner(clone)
    role_file(clone).unlink()
    role_file(clone).mkdir()
    assert "it is a directory" in fault_of_planner(clone)
    role_file(clone).rmdir()
    role_file(clone).symlink_to("planner.md")
    assert "circle" in fault_of_planner(clone)


def test_a_folder_of_roles_that_leads_out_may_hold_any_of_them(clone):
    (clone / ".claude" / "agents").rmdir()
    (clone / ".claude" / "agents").symlink_to(clone.parent)
    found = settings(clone)
    for role in ("planner", "constructor"):
        with pytest.raises(ConfigError, match="leads out of"):
            found.role(role)
    later = clone / ".codex" / "agents"
    later.mkdir(parents=True)
    (later / "constructor.toml").write_text(
        'name = "constructor"\ndeveloper_instructions = "Code."\n'
    )
    assert settings(clone).role("constructor").instructions == "Code."


@pytest.mark.extended
def test_a_folder_with_more_names_than_roles_are_had_is_refused(clone):
    for number in range(FOLDER_NAMES_MAX + 1):
        (clone / ".claude" / "agents" / f"{number}").touch()
    assert f"more than {FOLDER_NAMES_MAX} names" in str(settings(clone).role_faults["planner"])


@pytest.mark.parametrize("target", ["../agents", "{clone}/agents"])
def test_one_set_of_roles_under_two_names_is_read(clone, target):
    (clone / "agents").mkdir()
    (clone / "agents" / "planner.md").write_text(ROLE)
    (clone / ".claude" / "agents").rmdir()
    (clone / ".claude" / "agents").symlink_to(target.format(clone=clone))
    assert settings(clone).role("planner").instructions.strip() == "You are ours."
    assert settings(clone).role_faults == {}


def test_a_role_that_is_a_link_to_another_file_of_the_repository_is_read(clone):
    (clone / "ROLE.md").write_text(ROLE)
    role_file(clone).symlink_to("../../ROLE.md")
    assert settings(clone).role("planner").instructions.strip() == "You are ours."


LIMITED = "---\nname: planner\ntools: Read, Grep\nmodel: opus\n---\nYou are ours.\n"
ALL_BUT_READING = ("edit", "delete", "move", "execute", "fetch", "switch_mode", "other")


def test_a_roles_limits_count_at_once_and_its_model_with_consent(clone):
    role_file(clone).write_text(LIMITED)
    home = clone.parent / "home"
    before = load_settings(clone, environment={"UPTHREAD_HOME": str(home)}).role("planner")
    assert before.instructions != "You are ours."
    assert in_words(before.limits) == (
        "tools: Read, Grep, and no others",
        "not given: model: opus",
    )
    after = settings(clone).role("planner")
    assert (after.instructions, after.limits.model) == ("You are ours.", "opus")


def test_each_agent_is_told_its_own_file_and_held_to_the_limits_of_all(clone):
    role_file(clone).write_text(LIMITED)
    other = clone / ".opencode" / "agent" / "planner.md"
    other.parent.mkdir(parents=True)
    other.write_text("---\nname: planner\npermission:\n  webfetch: deny\n---\nYou are theirs.\n")
    found = settings(clone)
    for agent, told, model in (
        ("claude-code", "You are ours.", "opus"),
        ("claude-code-acp", "You are ours.", "opus"),
        ("opencode", "You are theirs.", ""),
        ("codex", "You are theirs.", ""),
    ):
        role = found.role("planner", agent)
        assert (role.instructions, role.limits.model) == (told, model), agent
        assert set(role.limits.said) == {
            "tools: Read, Grep, and no others",
            "permission.webfetch: deny",
        }
    assert len(found.alike["planner"]) == 3


@pytest.mark.parametrize(
    ("agent", "held", "is_trusted"),
    [
        ("claude-code", "../.mcp.json", False),
        ("claude-code", "", False),  # a subdirectory may hold settings
        ("opencode", "../opencode.json", False),
        ("opencode", "", True),
        ("opencode", "../../.opencode", True),  # the person's home
    ],
)
def test_settings_above_and_below_a_directory_need_trust_as_its_own_do(
    tmp_path, agent, held, is_trusted
):
    place = tmp_path / "home" / "unpacked" / "part"
    place.mkdir(parents=True)
    if held:
        (place / held).write_text("{}")
    environment = {"HOME": str(tmp_path / "home"), "UPTHREAD_HOME": str(tmp_path / "own")}
    found = load_settings(place, environment=environment)
    assert found.trusts(agent, str(place), environment) is is_trusted


def test_a_model_is_agreed_to_also_where_a_role_may_only_read(clone):
    role_file(clone).write_text(LIMITED)
    home = clone.parent / "home"
    home.mkdir()
    denied = "".join(f'{kind} = "deny"\n' for kind in ALL_BUT_READING)
    (home / "config.toml").write_text(f"[permissions]\n{denied}")
    before = load_settings(clone, environment={"UPTHREAD_HOME": str(home)})
    assert before.role("planner").instructions == "You are ours."
    assert before.role("planner").limits.model == ""
    assert [each.instead for each in before.pending][1:] == ["it is used without its model"]
    assert settings(clone).role("planner").limits.model == "opus"


@pytest.mark.parametrize("target", ["../secret.toml", "/dev/zero", "/proc/self/environ", "none"])
def test_a_projects_file_that_leads_elsewhere_is_an_error_that_says_so(clone, target):
    (clone / "upthread.toml").symlink_to(target)
    with pytest.raises(ConfigError, match=r"upthread\.toml cannot be read"):
        settings(clone)


def test_a_projects_file_that_is_a_pipe_is_an_error_at_once(clone):
    os.mkfifo(clone / "upthread.toml")
    with pytest.raises(ConfigError, match="it is a pipe"):
        settings(clone)


def test_a_persons_own_file_may_be_kept_elsewhere_and_is_an_ordinary_one(clone):
    home = clone.parent / "home"
    home.mkdir()
    (home / "config.toml").symlink_to("../secret.toml")
    assert settings(clone).agent == "rehearsal"
    (home / "config.toml").unlink()
    (home / "config.toml").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="it is a device"):
        settings(clone)


@pytest.mark.soak
@pytest.mark.parametrize("make", ["endless", "pipe"])
def test_a_verb_answers_in_little_memory_and_can_be_stopped(clone, make):
    path = role_file(clone)
    os.mkfifo(path) if make == "pipe" else path.symlink_to("/dev/zero")
    words = f"{sys.executable} -m upthread tell w/planner Go. --agent rehearsal"
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"ulimit -v {MEMORY_KIB_MAX} && exec {words}"],
        cwd=clone,
        env={"PATH": os.environ["PATH"], "UPTHREAD_HOME": str(clone.parent / "home")},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _, said = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 1
    assert b"planner.md cannot be read" in said


TWO_PROJECTS = """
import asyncio, sys
from upthread import open_project
async def opened(name):
    async with open_project(sys.argv[1], database=f"{sys.argv[1]}/{name}.db"): pass
async def both(): await asyncio.gather(opened("one"), opened("other"))
asyncio.run(both())
"""


@EXTENDED
def test_two_projects_are_opened_at_once_as_the_first_thing_that_a_process_does(tmp_path):
    """msgspec 0.22.0 crashes where two threads use a type first."""
    tmp_path.chmod(0o700)
    environment = {**os.environ, "HOME": str(tmp_path), "UPTHREAD_HOME": str(tmp_path / "home")}
    words = [sys.executable, "-c", TWO_PROJECTS, str(tmp_path)]
    for _ in range(8):
        done = subprocess.run(words, capture_output=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
