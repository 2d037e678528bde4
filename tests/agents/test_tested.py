"""What was tested is what was pinned and measured; another version is newer or older."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upthread.agents.registry import TESTED, WHAT_AGENTS_CAN, seen_way, seen_way_called, version_in

ROOT = Path(__file__).resolve().parents[2]
PINS = json.loads((ROOT / "agents.json").read_text())["dependencies"]
PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code",
    "claude-code-acp": "@agentclientprotocol/claude-agent-acp",
    "codex": "@openai/codex",
    "gemini-acp": "@google/gemini-cli",
    "codex-acp": "@agentclientprotocol/codex-acp",
    "opencode": "opencode-ai",
    "opencode-acp": "opencode-ai",
}


def name_of(row):
    return row.agent if row.kind == "native" else f"{row.agent}-{row.kind}"


@pytest.mark.parametrize("row", TESTED, ids=name_of)
def test_the_version_is_the_one_that_is_pinned_for_the_live_tests(row):
    package = PACKAGES.get(name_of(row))
    assert package is None or row.version == PINS[package]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "agents" / "measured").glob("*.json")), ids=lambda p: p.stem
)
def test_the_version_is_the_one_whose_behaviour_was_measured(path):
    kind = "acp" if path.stem.endswith("-acp") else "native"
    row = seen_way(path.stem.removesuffix("-acp"), kind)
    assert row is not None
    assert json.loads(path.read_text())["version"] in {row.version, PINS.get(PACKAGES[path.stem])}


def test_every_way_of_driving_a_known_agent_says_its_version_and_known_words():
    for row in TESTED:
        assert version_in(row.version) == row.version != ""
        assert row.can
        assert list(row.can) == [word for word in WHAT_AGENTS_CAN if word in row.can]


@pytest.mark.parametrize(
    ("version", "difference"),
    [
        ("1.18.33", ""),
        ("opencode 1.18.33 (build 7)", ""),
        ("1.18.34", "newer"),
        ("1.19", "newer"),
        ("2.0.0", "newer"),
        ("1.9.99", "older"),
        ("1.18", "older"),
        ("", ""),
        ("nightly", ""),
    ],
)
def test_another_version_is_newer_or_older_and_an_unreadable_one_neither(version, difference):
    row = seen_way("opencode", "native")
    assert row is not None
    assert row.difference(version) == difference


def test_the_warning_names_both_versions_and_the_probe_for_the_agents_name_here():
    row = seen_way("codex", "acp")
    assert row is not None
    assert row.warning("2.5.1", called="acp:codex-acp --x") == (
        "acp:codex-acp --x 2.5.1 is older than 2.6.0, which this upthread was tested with; "
        "try what it does: upthread doctor --probe 'acp:codex-acp --x'"
    )
    assert row.warning("2.6.0") == ""


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("OpenCode", "opencode"),
        ("@agentclientprotocol/codex-acp", "codex"),
        ("@agentclientprotocol/claude-agent-acp", "claude-code"),
        ("gemini-cli", "gemini"),
    ],
)
def test_an_agent_is_known_by_what_it_calls_itself_over_acp(name, known_as):
    row = seen_way_called(name)
    assert row is not None
    assert (row.agent, row.kind) == (known_as, "acp")
    assert seen_way_called("rehearsal") is None
    assert seen_way_called("") is None


def test_the_number_is_found_in_what_agents_print():
    assert version_in("2.1.330 (Claude Code)") == "2.1.330"
    assert version_in("codex-cli 0.169.0") == "0.169.0"
    assert version_in("none here") == ""


def test_an_agent_nobody_tested_has_no_row():
    assert seen_way("mine", "acp") is None
