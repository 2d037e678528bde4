"""The guide and the page of troubleshooting are played, and print what they say they print."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.sets import EXTENDED
from tests.support.world import eventually

pytestmark = EXTENDED

ROOT = Path(__file__).resolve().parents[3]
ENDS = re.compile(r"\s+# exit (\d+)$")
"""How a command ends stands behind it, where that is not 0."""

KILLED = "timeout -s KILL 2 "
"""How the pages kill a turn: two seconds are enough for a person, and not for each machine."""


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines that are shown under it."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def killed_in_its_turn(
    command: str, file: Path, place: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    """Run a command and kill it once its agent has begun to answer, however long that takes."""
    with file.open("wb") as told:
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"], **place, stdout=told, stderr=told
        )
    eventually(lambda: "chunk 1 of" in file.read_text())
    child.kill()
    child.wait()
    return subprocess.CompletedProcess(command, 128 + signal.SIGKILL, file.read_text(), "")


def plain(text: str) -> str:
    """Without what differs from one machine to the next: ids, given names."""
    return re.sub(r"\b[A-Z][a-z]+-(?=[a-z])", "NAME-", re.sub(r"ses_[0-9a-f]+", "SESSION", text))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", ["guide", "troubleshooting"])
def test_every_command_does_and_prints_what_the_page_shows(page: str, tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "shop"
    (home / "upthread").mkdir(parents=True, mode=0o700)
    project.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("UPTHREAD")},
        "HOME": str(home),
        "UPTHREAD_HOME": str(home / "upthread"),
        "UPTHREAD_SOURCES": str(ROOT),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    assert len(steps(page)) >= 15
    for command, shown in steps(page):
        place = {"cwd": project, "env": environment, "stdin": subprocess.DEVNULL}
        if command.startswith(KILLED):
            done = killed_in_its_turn(command.removeprefix(KILLED), tmp_path / "told", place)
        else:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                **place,
                capture_output=True,
                text=True,
                check=False,
                timeout=110,
            )
        told = plain(done.stdout + done.stderr)
        ends = ENDS.search(command)
        assert done.returncode == (int(ends[1]) if ends else 0), (command, told)
        missing = [line for line in shown if plain(line).strip() not in told]
        assert not missing, (command, missing, told)


def test_each_heading_of_troubleshooting_is_provoked_below_it():
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(sections) >= 15
    for section in sections:
        heading, _, below = section.partition("\n")
        blocks = "".join(re.findall(r"^```console\n(.*?)^```", below, re.MULTILINE | re.DOTALL))
        shown = "\n".join(line for line in blocks.splitlines() if not line.startswith("$ "))
        for seen in re.findall(r"`([^`]+)`", heading):
            for piece in seen.split(" … "):
                assert piece.removesuffix(" …") in shown, heading
