"""What the real agents read with commands is known, or said not to be known.

Forty ways, each its own file, then changed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live import claude_code, codex, opencode
from tests.live.reading import NOT_READ, NOT_TOLD, NOT_WHOLLY_TOLD, WAYS
from tests.live.shell import Shell, agents_left, only

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
ADDRESS = "spec-42/planner"


@dataclass(frozen=True, kw_only=True)
class Driven:
    """One agent as this test has it: its binary, its environment, the step that runs a line."""

    agent: str
    binary: str
    environment: Callable[..., dict[str, str]]
    step: Callable[[str], str]


DRIVEN = {
    each.agent: each
    for each in (
        Driven(
            agent="claude-code",
            binary="claude",
            environment=claude_code.claude_environment,
            step=claude_code.command,
        ),
        Driven(
            agent="opencode",
            binary="opencode",
            environment=opencode.opencode_environment,
            step=lambda line: f"[[CALL bash {json.dumps({'command': line, 'description': 'x'})}]]",
        ),
        Driven(
            agent="codex",
            binary="codex",
            environment=codex.codex_environment,
            step=codex.command,
        ),
    )
}


@pytest.mark.parametrize("name", DRIVEN)
def test_what_was_read_in_forty_ways_is_stale_once_it_has_changed(name, request, model, tmp_path):
    driven = DRIVEN[name]
    binaries, home, project = tmp_path / "bin", tmp_path / "home", tmp_path / "project"
    binaries.mkdir()
    binary = request.getfixturevalue(f"{name.partition('-')[0]}_binary")
    (binaries / driven.binary).symlink_to(binary)
    environment = {
        **driven.environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(tmp_path / "upthread"),
    }
    subprocess.run(["git", "init", "-q", "-b", "main", project], check=True)
    Path(environment["UPTHREAD_HOME"]).mkdir(mode=0o700)
    own = Path(environment["UPTHREAD_HOME"]) / "config.toml"
    own.write_text('[permissions]\nexecute = "allow"\nother = "allow"\n')
    own.chmod(0o600)
    shell = Shell(project, environment)

    lines = [*WAYS, *NOT_READ, *NOT_TOLD]
    files = [f"file-{number}.txt" for number in range(len(lines))]
    for file in files:
        (project / file).write_text(f"{file}\nmore\n")
    steps = [driven.step(line.format(file, file)) for line, file in zip(lines, files, strict=True)]
    told = only(
        shell.lines("tell", ADDRESS, "Look.\n\n" + "\n".join(steps), "--agent", name), "turn_ended"
    )
    assert told["outcome"] == "ok", told
    for file in files:
        (project / file).write_text("somebody else's\n")
    why = shell.lines("why", ADDRESS)[0]
    stale = set(why["now"]["stale_files"])

    assert len(WAYS) >= 40
    read = dict(zip(WAYS, files, strict=False))
    missed = [way for way, file in read.items() if file not in stale]
    wrongly = stale.difference(read.values())
    print(  # noqa: T201  # the figure that is promised
        f"{name}: {len(stale)} stale of {len(WAYS)} ways, {len(wrongly)} wrongly, missed {missed}"
    )
    assert (missed, sorted(wrongly)) == ([], [])
    known = {"files": len(WAYS), "commands_not_known": len(NOT_WHOLLY_TOLD)}
    assert why["reading"] == {**known, "searches_not_known": 0, "calls_not_kept": 0}
    assert agents_left(tmp_path) == []
