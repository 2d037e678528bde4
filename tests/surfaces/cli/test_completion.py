"""Completion in the shell: verbs, options, addresses and agents, and never an error."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.completing import completed
from tests.support.sets import spread

WS = "complete-me"


@pytest.fixture(scope="module")
def offered(shared):
    """What is offered in the project at the end of a line."""
    shared("tell", f"{WS}/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")

    def ask(line: str, directory: Path | None = None) -> list[str]:
        place = directory or shared.directory
        names, said = completed(f"upthread {line}", directory=place, environment=shared.environment)
        assert said == ""
        return names

    return ask


@pytest.mark.extended
def test_options_are_offered_of_the_verb_and_of_every_verb(offered):
    assert set(offered("tell --")) >= {"--agent", "--continue", "--json", "--db", "--help"}
    assert offered("tell --tok") == ["--tokens-max"]
    assert "--tokens-max" not in offered("ls --")
    assert set(offered("--")) >= {"--version", "--json"}


@pytest.mark.soak
@pytest.mark.parametrize(
    "line",
    spread(
        ["tell --agent opencode {}/", "show {}/", "tell {}/", "--json why {}/", "open --json {}/"]
    ),
)
def test_addresses_are_offered(offered, line):
    assert offered(line.format(WS)) == [f"{WS}/planner"]


def test_workstreams_are_offered(offered):
    assert offered("run comp") == [WS]
    assert offered("show comp") == [WS, f"{WS}/planner"]


def test_agents_are_offered(offered):
    assert offered("tell w/planner --agent cla") == ["claude-code"]
    assert set(offered("run w --agent ")) >= {"codex", "opencode", "claude-code"}
    assert offered("why w/planner --agent=cod") == ["codex"]
    assert offered("setup cla") == ["claude"]
    assert offered("doctor c") == ["claude-code", "codex"]


def test_words_of_a_choice_are_offered(offered):
    assert offered("audit w --format ") == ["atif", "html", "json", "md", "otel"]


def test_a_broken_configuration_offers_nothing_and_says_nothing(offered, shared):
    broken = shared.directory / "upthread.toml"
    broken.write_text("broken")
    assert offered(f"show {WS}/") == []
    assert offered("-C gone show x") == []
    broken.unlink()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shared, shell):
    script = shared("--show-completion", shell).out
    assert "_UPTHREAD_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=30)


def test_bash_completes_with_the_script_it_is_given(offered, shared, tmp_path):
    program = tmp_path / "upthread"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m upthread "$@"\n')
    program.chmod(0o755)
    typed = (
        f'eval "$(upthread --show-completion bash)"; COMP_WORDS=(upthread show {WS}/pl); '
        "COMP_CWORD=2; _upthread_completion upthread; "
        "printf '%s\\n' \"${COMPREPLY[@]}\"; complete -p upthread"
    )
    path = f"{tmp_path}:{shared.environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", typed],
        cwd=shared.directory,
        env={**shared.environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    first, registered = done.stdout.splitlines()
    assert first.strip() == f"{WS}/planner"
    assert registered.endswith("_upthread_completion upthread")
    assert done.stderr == ""
