"""What the README tells a newcomer to type is what the program takes, and does."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sets import EXTENDED

from upthread.surfaces.cli import overview as verb_module
from upthread.surfaces.cli.options import Verb
from upthread.surfaces.cli.program import main

README = Path(__file__).resolve().parents[3] / "README.md"
BLOCKS = re.findall(
    r"^```console\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
LINES = [
    line.removeprefix("$ ").partition(" #")[0].strip()
    for block in BLOCKS
    for line in block.splitlines()
    if line.startswith("$ upthread")
]
NOT_HERE = ("upthread setup", "upthread demo", "upthread web", "--continue")
"""What is played elsewhere: it changes an agent's settings, does not end by itself, or needs a kill."""


@pytest.mark.parametrize("line", dict.fromkeys(LINES))
def test_each_line_is_one_that_the_program_reads(line, monkeypatch):
    read = []
    monkeypatch.setattr(Verb, "invoke", lambda verb, _: read.append(verb.name) or 0)
    monkeypatch.setattr(verb_module, "overview", lambda *_, **__: read.append("") or 0)
    assert main(shlex.split(line)[1:]) == 0
    assert len(read) == 1


@EXTENDED
def test_typed_one_after_the_other_in_an_empty_home_they_do_what_they_say(tmp_path):
    home, project = tmp_path / "home", tmp_path / "export"
    (home / "upthread").mkdir(parents=True, mode=0o700)
    project.mkdir()
    (home / "upthread" / "config.toml").write_text('agent = "rehearsal"\n')
    (project / "spec.md").write_text("# Specification\n\n- R1: say hello\n")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("UPTHREAD")},
        "HOME": str(home),
        "UPTHREAD_HOME": str(home / "upthread"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    typed = [line for line in LINES if not any(each in line for each in NOT_HERE)]
    assert len(typed) >= 10
    for line in typed:
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        # Four: a role asks somebody, as the README says.
        assert done.returncode in {0, 4}, (line, done.stdout, done.stderr)
    assert (project / "spec-42.html").read_text(encoding="utf-8").startswith("<!doctype html>")
