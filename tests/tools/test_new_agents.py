"""The table of the newest agents counts each test for the packages that its name names."""

from __future__ import annotations

import json

from tools.new_agents import REPOSITORY, WORDS, read_results, table_of

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.live.test_gemini" name="test_a"/>
<testcase classname="tests.live.test_codex_conformance" name="test_b[A1-codex-acp]"/>
<testcase classname="tests.live.test_codex_conformance" name="test_b[A1-codex]">
  <failure message="no"/></testcase>
<testcase classname="tests.live.test_codex_hooks" name="test_c"><error message="no"/></testcase>
<testcase classname="tests.live.test_probe" name="test_d[open_code]"><skipped/></testcase>
<testcase classname="tests.live.test_terminal" name="test_e"/>
</testsuite></testsuites>"""


def test_the_table_has_a_row_for_each_package_and_one_for_tests_that_name_none():
    pinned = dict.fromkeys(WORDS, "1.0.0")
    newest = dict.fromkeys(WORDS, "1.1.0")
    rows = table_of(pinned, newest, read_results(JUNIT)).splitlines()
    assert len(rows) == 2 + len(WORDS) + 1
    assert "| `@openai/codex` | 1.0.0 | 1.1.0 | 1 | 2 |" in rows
    assert "| `@agentclientprotocol/codex-acp` | 1.0.0 | 1.1.0 | 1 | 0 |" in rows
    assert "| `@google/gemini-cli` | 1.0.0 | 1.1.0 | 1 | 0 |" in rows
    assert rows[-1] == "| tests that name no agent |  |  | 1 | 0 |"


def test_each_pinned_agent_has_its_words():
    pinned = json.loads((REPOSITORY / "agents.json").read_text())["dependencies"]
    assert set(WORDS) == set(pinned) - {"axe-core"}
