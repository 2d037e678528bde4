"""The rows of the agents: what the rest of the house relies on."""

import pytest

from upthread.core.agents import (
    ACP,
    AGENTS,
    NATIVE,
    WITH_A_STORE,
    name_of,
    one_of,
    other_major,
    provider_of,
)
from upthread.surfaces.hook.program import LINE_FIELDS

ROWS = pytest.mark.parametrize("row", AGENTS.values(), ids=lambda row: row.name)


@ROWS
def test_a_row_is_found_by_its_name_and_its_program_is_what_it_prefers(row):
    assert AGENTS[row.name] is row
    assert row.program == row.ways[0].command[0]
    assert [way.kind for way in row.ways] in ([NATIVE, ACP], [NATIVE], [ACP])


@ROWS
def test_an_agent_with_an_interface_of_its_own_has_a_folder_and_no_other_has(row):
    assert bool(row.folder) == (row.ways[0].kind == NATIVE)


@ROWS
def test_a_store_is_read_by_the_agents_folder(row):
    assert row.home is None or row.folder
    assert (row.name in WITH_A_STORE) == (row.home is not None)


def test_hooks_are_heard_of_the_agents_that_can_be_set_up():
    assert set(LINE_FIELDS) == {row.name for row in AGENTS.values() if row.setup_name}


def test_no_variable_marks_two_agents():
    marks = [variable for row in AGENTS.values() for variable in row.marks]
    assert len(marks) == len(set(marks))


def test_names_are_offered_as_a_sentence_offers_them():
    assert [one_of("a"), one_of("ab"), one_of("abc")] == ["a", "a or b", "a, b or c"]


@ROWS
def test_an_agent_is_named_by_its_name_its_program_and_as_it_is_set_up(row):
    assert {name_of(word) for word in (row.name, row.program, row.setup_name) if word} == {row.name}
    assert name_of("nobody") == "nobody"


@ROWS
def test_a_session_is_opened_by_its_id_and_by_no_option(row):
    session = "01a1fefd-1436-70d0-b61e-0c7b73ca6add"
    command = row.resume_command(session)
    assert command == ((*row.resumed_by, session) if row.resumed_by else None)
    if command is not None:
        elsewhere = row.resume_command(session, ("/opt/x", "run"))
        assert elsewhere == ("/opt/x", "run", *command[1:])
    assert row.resume_command("--help") is None
    assert row.resume_command("") is None
    assert row.opens_sub_agents == ("open_sub_agents" in row.ways[0].can)


def test_an_id_that_its_own_interface_takes_for_something_else_opens_nothing():
    assert AGENTS["codex"].resume_command("spec-42") is None, "a thread's name"
    assert AGENTS["claude-code"].resume_command("a742ea7680ae1c821") is None, "a sub-agent's"
    assert AGENTS["claude-code"].resume_command("a742ea7680ae1c821\n") is not None


def test_the_provider_is_the_rows_and_else_the_agents_own_name():
    assert provider_of("claude-code") == "anthropic"
    assert provider_of("opencode") == "opencode"
    assert provider_of("acp:mine") == "acp:mine"


def test_which_agents_open_a_sub_agents_session_by_its_id():
    opens = {name for name, row in AGENTS.items() if row.opens_sub_agents}
    assert opens == {"opencode", "codex"}


def test_another_major_version_is_known_by_its_number_and_the_tested_one_is_none():
    known = other_major("opencode", "2.1.4")
    assert known is not None
    assert known.works
    assert known.works_not
    assert other_major("opencode", "1.18.33") is None
    assert other_major("opencode", "") is None
    assert other_major("nobody", "2.0") is None


def test_an_archived_session_is_fetched_first_where_its_agent_asks_for_that():
    thread = "01a20601-8661-7d90-8014-80c2410a5e75"
    assert AGENTS["codex"].unarchive_command(thread) == ("codex", "unarchive", thread)
    assert AGENTS["codex"].unarchive_command("-x") is None
    assert AGENTS["opencode"].unarchive_command("ses_1") is None


def test_a_database_that_is_named_wins_over_the_place_of_a_store():
    places = [row.home.variables for row in AGENTS.values() if row.home]
    assert {("OPENCODE_DB", "XDG_DATA_HOME"), ("CODEX_HOME",)} <= {*places}
