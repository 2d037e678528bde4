"""Runs the live tests with the newest version of each pinned agent that the npm registry has.

    python -m tools.new_agents [WORD for pytest …]

The newest versions go into `.agents-new`, so that the pinned agents stay as they are. The table of
what passed is printed and written to docs/agents/measured.md. With words for pytest, such as
`tests/live/test_gemini.py`, only those tests run and the page stays. Exit code 1: a test failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

REPOSITORY = Path(__file__).resolve().parents[1]
NEW_AGENTS = REPOSITORY / ".agents-new"
TABLE = REPOSITORY / "docs/agents/measured.md"
RESULTS = NEW_AGENTS / "results.xml"

WORDS: Mapping[str, tuple[str, ...]] = {
    "@agentclientprotocol/claude-agent-acp": ("claude", "acp"),
    "@agentclientprotocol/codex-acp": ("codex", "acp"),
    "@anthropic-ai/claude-code": ("claude",),
    "@google/gemini-cli": ("gemini",),
    "@openai/codex": ("codex",),
    "opencode-ai": ("opencode",),
}
"""The words in a test's name by which the test counts for a package. Each word must be there."""

PAGE = """# The newest agents

`make new-agents` ran the live tests with the newest agents of the npm registry on {date}. A test
counts for each package that its name names, for example `claude` and `acp` for claude-agent-acp.

{table}
"""


def main(pytest_words: list[str]) -> int:
    """Install the newest agents, run the tests, write the table; return 1 if a test failed."""
    pinned = json.loads((REPOSITORY / "agents.json").read_text())
    newest = {package: _newest_version(package) for package in WORDS}
    _install({**pinned, "dependencies": newest})
    exit_code = _run_tests(pytest_words or ["tests/live"])
    results = read_results(RESULTS.read_text()) if RESULTS.exists() else {}
    table = table_of(pinned["dependencies"], newest, results)
    if not pytest_words:
        TABLE.write_text(PAGE.format(date=time.strftime("%Y-%m-%d", time.gmtime()), table=table))
    print(table)
    return int(exit_code != 0 or not results)


def read_results(junit_xml: str) -> dict[str, bool]:
    """Return for each test that ran whether it passed, by its module and name."""
    cases = ET.fromstring(junit_xml).iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}": not _has(case, "failure", "error")
        for case in cases
        if not _has(case, "skipped")
    }


def table_of(
    pinned: Mapping[str, str], newest: Mapping[str, str], results: Mapping[str, bool]
) -> str:
    """Return the Markdown table: a row for each package, and one for tests that name no package."""
    rows = ["| package | pinned | newest | passed | failed |\n|---|---|---|---|---|"]
    for package in newest:
        ends = [passed for test, passed in results.items() if package in packages_of(test)]
        rows.append(_row(f"`{package}`", pinned[package], newest[package], ends))
    unnamed = [passed for test, passed in results.items() if not packages_of(test)]
    return "\n".join([*rows, _row("tests that name no agent", "", "", unnamed)])


def packages_of(test: str) -> list[str]:
    """Return the packages that a test's module and name stand for."""
    plain = test.lower().replace("_code", "code").replace("-code", "code")
    return [package for package, words in WORDS.items() if all(word in plain for word in words)]


def _row(name: str, pinned: str, newest: str, ends: Sequence[bool]) -> str:
    return f"| {name} | {pinned} | {newest} | {ends.count(True)} | {ends.count(False)} |"


def _has(case: ET.Element, *tags: str) -> bool:
    return any(case.find(tag) is not None for tag in tags)


def _newest_version(package: str) -> str:
    asked = ["npm", "view", package, "version"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _install(wanted: Mapping[str, object]) -> None:
    NEW_AGENTS.mkdir(exist_ok=True)
    (NEW_AGENTS / "package.json").write_text(json.dumps(wanted, indent=2) + "\n")
    quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
    words = ["npm", "install", "--prefix", str(NEW_AGENTS), "--ignore-scripts", *quiet]
    subprocess.run(words, check=True)


def _run_tests(words: Sequence[str]) -> int:
    RESULTS.unlink(missing_ok=True)
    pytest = ("-m", "pytest", "-n", "2", "--dist", "loadgroup", "-m", "not soak", "-q")
    # With CI set, an agent that does not start is a failure and no skip.
    environment = {**os.environ, "UPTHREAD_TEST_AGENTS": str(NEW_AGENTS), "CI": "true"}
    command = [sys.executable, "tools/enclosed.py", sys.executable, *pytest]
    command += [f"--junitxml={RESULTS}", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
