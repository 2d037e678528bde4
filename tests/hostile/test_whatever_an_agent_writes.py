"""An agent that may edit and not execute: whatever it writes, no verb and no hook runs it.

Every setting of git's that names a program, every place git reads settings and attributes from,
every name Python looks for: any number of them at once, in any order.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hostile.entries import WORKSTREAM
from tests.support.hostile_clones import HostileClone

SETTINGS = (
    *("core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.gitProxy", "core.pager"),
    *(
        "core.editor",
        "core.askPass",
        "core.attributesFile",
        "core.worktree",
        "core.alternateRefsCommand",
    ),
    *("filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.external", "diff.x.textconv"),
    *("diff.x.command", "merge.x.driver", "gpg.program", "gpg.ssh.program", "credential.helper"),
    *("sequence.editor", "interactive.diffFilter", "remote.origin.uploadpack", "remote.origin.url"),
    *("remote.origin.vcs", "submodule.x.update", "uploadpack.packObjectsHook", "trailer.x.command"),
    *("alias.status", "alias.rev-parse", "pager.status", "init.templateDir", "include.path"),
)
PLACES = (
    *(
        ".git/config",
        ".git/config.worktree",
        ".gitmodules",
        ".lfsconfig",
        "config",
        "docs/style.ini",
    ),
    *("packages/config", ".git/modules/x/config", ".git/worktrees/x/config.worktree"),
)
ATTRIBUTES = (".gitattributes", ".git/info/attributes", "packages/.gitattributes")
PROGRAMS = (
    *(".git/hooks/post-checkout", ".git/hooks/post-index-change", ".git/hooks/pre-auto-gc"),
    *(".git/hooks/reference-transaction", ".git/hooks/fsmonitor-watchman", "git", "bin/git"),
    *("python3", "node_modules/.bin/git", ".venv/bin/python", "setpriv", "sh", "vi", "codex"),
)
MODULES = (
    *("upthread.py", "upthread/__init__.py", "upthread/__main__.py", "queue.py", "json.py"),
    *("sitecustomize.py", "usercustomize.py", "msgspec.py", "typing.py", "encodings/__init__.py"),
    *("packages/app/upthread.py", "conftest.py", "setup.py", "src/upthread/__init__.py"),
)
EXTENSIONS = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"
PARTIAL = '\tpartialClone = origin\n[remote "origin"]\n\tpromisor = true\n'
EXAMPLES_MAX = 300 if os.environ.get("UPTHREAD_SOAK") else 12

written = st.fixed_dictionaries(
    {
        "settings": st.lists(
            st.tuples(st.sampled_from(PLACES), st.sampled_from(SETTINGS)), max_size=12
        ),
        "attributes": st.sets(st.sampled_from(ATTRIBUTES)),
        "programs": st.sets(st.sampled_from(PROGRAMS)),
        "modules": st.sets(st.sampled_from(MODULES)),
        "is_partial": st.booleans(),
    }
)


def setting(name, program):
    section, _, rest = name.partition(".")
    middle, _, last = rest.rpartition(".")
    return f"[{section}{f' {chr(34)}{middle}{chr(34)}' if middle else ''}]\n\t{last} = {program}\n"


def write(directory, canary, what):
    program = canary.command("written")
    with (directory / ".git" / "config").open("a") as config:
        config.write(EXTENSIONS + (PARTIAL if what["is_partial"] else ""))
    for place, name in what["settings"]:
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        with (directory / place).open("a") as file:
            file.write(setting(name, program))
    for place in what["attributes"]:
        (directory / place).write_text("* filter=x diff=x merge=x\n")
    for place in what["programs"]:
        canary.put(directory / place, f"written {place}")
    for place in what["modules"]:
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        (directory / place).write_text(canary.module(f"written {place}"))
    (directory / "greeter.py").write_text("print('changed')\n")


@pytest.mark.timeout(3600)
@settings(
    max_examples=EXAMPLES_MAX,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(what=written)
def test_nothing_that_was_written_is_run(what, hostile_world):
    world = hostile_world
    world.lay_out()
    world.become(
        HostileClone(
            name="whatever",
            attacks="all that an agent may write",
            build=lambda directory, canary: write(directory, canary, what),
        )
    )
    for words in (("ls",), ("show", WORKSTREAM), ("audit", WORKSTREAM), ("worktree",)):
        world.verb(words)
    world.start_drain()
    world.settle()
    ran = [breach for breach in world.breaches.found if "RAN" in breach or "HUNG" in breach]
    assert ran == [], what
