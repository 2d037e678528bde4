"""How the agent's process starts and ends."""

import subprocess
import sys

import pytest
from tests.agents.rehearsal.conftest import COMMAND, PATIENCE_S, environment_of

MODULES_OF_UPTHREAD = """
import runpy, sys, os
os._exit = lambda code: None
runpy.run_module("upthread.agents.rehearsal", run_name="__main__")
print(*sorted(sys.modules), file=sys.stderr)
"""


def _run(home, *command: str, **more: str):
    return subprocess.run(
        command,
        env=environment_of(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("UPTHREAD_REHEARSAL_CAPABILITIES", "no_such_word"),
        ("UPTHREAD_REHEARSAL_HOME", "/dev/null/sessions"),
    ],
)
def test_settings_that_cannot_be_used_end_it_with_one_line_that_names_them(home, variable, value):
    done = _run(home, *COMMAND, **{variable: value})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert value in done.stderr


def test_it_ends_with_its_input(home):
    done = _run(home, *COMMAND)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_imports_nothing_else_of_upthread_and_nothing_heavy(home):
    modules = _run(home, sys.executable, "-P", "-c", MODULES_OF_UPTHREAD).stderr.split()
    ours = {name for name in modules if name.startswith("upthread")}
    others = {name for name in ours if not name.startswith("upthread.agents.rehearsal")}
    assert others == {"upthread", "upthread.agents"}
    assert "upthread.agents.rehearsal.roles" in ours
    assert not {"asyncio", "subprocess", "msgspec", "acp", "apsw", "dataclasses"} & set(modules)
