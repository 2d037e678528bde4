"""Every example runs as a user would run it, and the README's code is no fiction."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.extended

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


def run_python(code: Path | str, tmp_path: Path) -> str:
    """Run a file or a piece of code in an empty directory, with a home of its own."""
    words = ["-c", code] if isinstance(code, str) else [str(code)]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path / "home"),
            "UPTHREAD_HOME": str(tmp_path / "upthread"),
            "UPTHREAD_REHEARSAL_HOME": str(tmp_path / "sessions"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    assert run_python(example, tmp_path)


def test_delegate_resumes_the_same_session(tmp_path):
    lines = run_python(REPOSITORY / "examples" / "delegate.py", tmp_path).splitlines()
    decisions = [line.split() for line in lines if line.endswith(" ok")]
    assert [words[0] for words in decisions] == ["first", "resume"]
    assert decisions[0][1] == decisions[1][1]


def test_the_library_code_of_the_readme_runs(tmp_path):
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "upthread.toml").write_text('agent = "rehearsal"\n')
    assert run_python(block, tmp_path).startswith("first ('none_yet',)")


def commands_of_workers() -> list[list[str]]:
    """The command lines of upthread in the unit and in the compose file."""
    folder = REPOSITORY / "examples" / "workers"
    unit = (folder / "upthread-worker@.service").read_text()
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"].values()
    started = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    composed = [each["command"] for each in services if "command" in each]
    return [*(each.split() for each in started), *composed]


@pytest.mark.parametrize("words", commands_of_workers(), ids=" ".join)
def test_the_commands_of_the_worker_examples_have_options_that_exist(words):
    verb, *arguments = words[1:]
    asked = [sys.executable, "-m", "upthread", verb, "--help"]
    help_of_verb = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    options = [each for each in arguments if each.startswith("--")]
    assert [each for each in options if each not in help_of_verb.stdout] == []
