"""Each way into upthread, in a folder full of decoys, really started: none of them ever runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.entries import EVENTS
from tests.support.decoys import Decoys
from tests.support.sets import spread

from upthread.core.decision.words import UNDECIDED

PATIENCE_S = 60
INSTALLED = """\
#!{python}
import sys
from upthread.__main__ import main
sys.exit(main())
"""
"""What an installer makes of the entry point: the program that a person calls."""

AGENTS = {"claude": "claude-code", "codex": "codex", "opencode": "opencode"}


class InClone:
    """upthread in a hostile clone, as a person calls it and as agents do."""

    def __init__(self, up, tmp_path: Path) -> None:
        self.up = up
        self.home: Path = up.home
        self.clone: Path = up.directory
        program = up.home / "bin" / "upthread"
        program.write_text(INSTALLED.format(python=sys.executable))
        program.chmod(0o755)
        up.words = lambda *words: [str(program), *words]
        up.is_cold = True
        up("use", "spec-42")
        for agent in AGENTS:
            up("setup", agent, "--yes")
        self.decoys = Decoys(self.clone, tmp_path / "canary")
        up.environment["PATH"] = f"{self.decoys.path}:{up.environment['PATH']}"

    @property
    def agents_environment(self) -> dict[str, str]:
        """What an agent hands on to what it starts: all that could lead to a decoy."""
        return {**self.up.environment, **self.decoys.python_environment}

    def run(self, words: list[str], *, said: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words,
            cwd=self.clone,
            env=self.agents_environment,
            input=said,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @property
    def addresses(self) -> list[str]:
        """The conversations that are in the store."""
        listed = self.up("ls", "--json").json["workstreams"]
        return [role["address"] for each in listed for role in each["roles"]]

    def hook(self, line: str, request: dict[str, Any]) -> dict[str, Any]:
        """Run a hook's line as an agent does: in its own shell."""
        done = self.run(["/bin/sh", "-c", line], said=json.dumps(request).encode())
        assert (done.returncode, done.stderr) == (0, b"")
        return json.loads(done.stdout or b"{}")


@pytest.fixture(scope="module")
def clone(tmp_path_factory, make_upthread) -> InClone:
    """One for all tests, so that whatever a test has fallen for fails those after it as well."""
    directory = tmp_path_factory.mktemp("hostile")
    return InClone(make_upthread(directory), directory)


@pytest.mark.soak
def test_the_decoys_do_catch_what_is_started_as_it_once_was(clone):
    """The canary is no decoration: each of these is how something of ours was started before."""
    for words in (
        [sys.executable, "-m", "upthread", "ls"],
        ["/bin/sh", "-c", "git --version"],
        ["/usr/bin/env", "python3", "-V"],
    ):
        environment = clone.up.environment
        subprocess.run(words, cwd=clone.clone, env=environment, capture_output=True, check=False)
        assert clone.decoys.canary.exists(), words
        clone.decoys.canary.unlink()


@pytest.mark.soak
def test_the_agent_is_the_installed_one_and_never_one_of_the_clone(clone):
    opened = clone.up("tell", "spec-42/constructor", "Do it.", "--agent", "opencode", "--json")
    assert opened.code == 0
    installed = clone.home / "bin" / "opencode"
    installed.rename(installed.with_name("away"))
    refused = clone.up("tell", "spec-44/constructor", "Do it.", "--agent", "opencode", code=None)
    installed.with_name("away").rename(installed)
    assert refused.code != 0
    assert "outside of the working tree" in refused.err
    clone.decoys.assert_nothing_ran()


RECORDER = """\
#!/bin/sh
for word; do echo "<$word>"; done > {told}
echo "in $PWD" >> {told}
echo "$PATH" | tr : '\\n' >> {told}
"""


@pytest.fixture
def editor(clone):
    """An installed editor that writes down how it was started; what it has written, line by line."""
    clone.up("tell", "spec-42/planner", "Plan it. [[rehearse: say ok]]", "--agent", "rehearsal")
    program, told = clone.home / "bin" / "my-editor", clone.home / "told"
    program.write_text(RECORDER.format(told=told))
    program.chmod(0o755)
    before = dict(clone.up.environment)
    yield lambda: told.read_text().splitlines()
    clone.up.environment.clear()
    clone.up.environment.update(before)
    program.unlink()
    told.unlink(missing_ok=True)


@pytest.mark.soak
@pytest.mark.parametrize("variable", spread(["EDITOR", "VISUAL"]))
def test_an_editor_is_given_its_words_as_they_stand_and_no_shell_reads_them(
    clone, editor, variable
):
    made = [clone.home / f"made-{each}" for each in "abcd"]
    shell = "; touch {} && touch {} | touch $(touch {}) > {}".format(*made)
    clone.up.environment[variable] = f"my-editor --wait 'a  b' $HOME * {shell}"
    clone.up("brief", "spec-42/planner", "--edit")
    *words, file = [line[1:-1] for line in editor() if line.startswith("<")]
    assert words == ["--wait", "a  b", "$HOME", "*", *shell.split()]
    assert Path(file).name == "briefing.md"
    assert [each for each in made if each.exists()] == []
    clone.decoys.assert_nothing_ran()


@pytest.mark.soak
def test_an_editor_begins_in_a_folder_of_ours_and_finds_nothing_of_the_clone(clone, editor):
    clone.up.environment["EDITOR"] = "my-editor"
    clone.up("brief", "spec-42/planner", "--edit")
    (file, place, *path) = editor()
    assert place == f"in {Path(file[1:-1]).parent}"
    assert not Path(file[1:-1]).is_relative_to(clone.clone)
    assert [each for each in path if not each.startswith("/")] == []
    assert str(clone.home / "bin") in path


@pytest.mark.soak
def test_no_file_of_a_repository_names_an_editor(clone, editor):
    """Not git's configuration, which other programs take one from, nor ours, nor a .env file."""
    decoy = clone.clone / "my-editor"
    subprocess.run(["git", "config", "core.editor", decoy], cwd=clone.clone, check=True)
    for name, text in (
        (".env", f"EDITOR={decoy}\nVISUAL={decoy}\n"),
        (".editorconfig", f"[*]\neditor = {decoy}\n"),
    ):
        (clone.clone / name).write_text(text)
    refused = clone.up("brief", "spec-42/planner", "--edit", code=2)
    assert "no editor is named" in refused.err
    (clone.clone / "upthread.toml").write_text(f'editor = "{decoy}"\n')
    refused = clone.up("brief", "spec-42/planner", "--edit", code=1)
    (clone.clone / "upthread.toml").unlink()
    assert "unknown field `editor`" in refused.err
    clone.decoys.assert_nothing_ran()


def requests_of(agent: str, clone: InClone, role: str) -> list[dict[str, Any]]:
    """What an agent's hooks are asked about a role that no other test has."""
    asked = json.dumps(EVENTS[agent](str(clone.clone)))
    return json.loads(asked.replace('"planner"', f'"{role}"'))


@pytest.mark.parametrize("agent", spread(["claude", "codex"]))
def test_no_hook_runs_one_and_each_does_its_work(clone, agent):
    settings = clone.home / (".claude/settings.json" if agent == "claude" else ".codex/hooks.json")
    hooks = json.loads(settings.read_text())["hooks"]
    role = "validator" if agent == "claude" else "clarifier"
    requests = requests_of(AGENTS[agent], clone, role)
    named = {each["hook_event_name"]: each for each in requests}
    requests += [named["SubagentStop"] | {"hook_event_name": e} for e in hooks.keys() - named]
    for request in requests:
        for entry in hooks.get(request["hook_event_name"], ()):
            for each in entry["hooks"]:
                told = clone.hook(each["command"], request)
                assert UNDECIDED not in json.dumps(told)
    clone.decoys.assert_nothing_ran()
    assert f"spec-42/{role}" in clone.addresses


def test_the_plug_ins_command_runs_none(clone):
    plugin = (clone.home / ".config/opencode/plugin/upthread.js").read_text()
    (line,) = (line for line in plugin.splitlines() if line.startswith("const COMMAND = "))
    command = json.loads(line.removeprefix("const COMMAND = "))
    for request in requests_of("opencode", clone, "auditor"):
        done = clone.run(command, said=json.dumps(request).encode())
        assert (done.returncode, done.stderr) == (0, b"")
    clone.decoys.assert_nothing_ran()
    assert "spec-42/auditor" in clone.addresses
