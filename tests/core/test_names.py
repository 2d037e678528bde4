import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.names import (
    BASE_NAMES,
    ROLE_CHARACTERS_MAX,
    WORKSTREAM_BYTES_MAX,
    Address,
    choose_base_name,
    did_you_mean,
    directory_name,
    key_of,
    parse_address,
    parse_role,
    parse_workstream,
    shown,
)
from upthread.core.types import ConversationKey, ProjectId
from upthread.errors import UsageError
from upthread.testing.store_conformance import samples

WORKSTREAMS = st.text(min_size=1, max_size=40).filter(lambda t: t.isprintable() and t.strip())
ROLES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True)


def test_an_address_of_a_project_is_the_key_of_one_conversation():
    project = ProjectId("prj_1")
    assert key_of(project, parse_address("w/planner~2")) == ConversationKey(
        project_id=project, workstream="w", role="planner", slot=2
    )


def test_an_address_is_split_at_the_last_slash():
    address = Address(workstream="feature/login", role="planner")
    assert parse_address("feature/login/planner") == address


def test_a_sibling_is_addressed_by_its_slot():
    assert parse_address("spec-42/reviewer~2").slot == 2
    assert parse_address("spec-42/reviewer~1") == parse_address("spec-42/reviewer")


@pytest.mark.parametrize("slot", ["~0", "~02", "~x", "~", "~1000000", "~2~3", "~-1"])
def test_a_slot_that_is_none_is_refused_as_a_role(slot: str):
    with pytest.raises(UsageError) as raised:
        parse_address(f"spec-42/reviewer{slot}")
    assert "is not a role name" in raised.value.message


def test_an_address_without_a_slash_says_what_an_address_is():
    with pytest.raises(UsageError) as raised:
        parse_address("planner")
    assert "WORKSTREAM/ROLE" in raised.value.hint


@pytest.mark.extended
@given(WORKSTREAMS, ROLES, st.integers(1, 99))
def test_the_address_a_key_shows_leads_back_to_it(workstream: str, role: str, slot: int):
    key = ConversationKey(
        project_id=ProjectId("prj"), workstream=parse_workstream(workstream), role=role, slot=slot
    )
    assert parse_address(key.address) == Address(workstream=key.workstream, role=role, slot=slot)


@pytest.mark.extended
@given(WORKSTREAMS)
def test_a_workstream_is_one_name_however_it_was_composed(text: str):
    names = {parse_workstream(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
    assert names == {unicodedata.normalize("NFC", text.strip())}
    assert {parse_workstream(name) for name in names} == names


@pytest.mark.parametrize(
    "text",
    [
        *("a\nb", "a\0b", "a\x1b[31mb", "a\u202eb", "a\u2028b", "a\ud800b", "\u200b"),
        *("tab\there", "x\x7f"),
    ],
    ids=ascii,
)
def test_a_name_that_cannot_be_printed_is_refused_and_shown_escaped(text: str):
    with pytest.raises(UsageError) as raised:
        parse_workstream(text)
    assert str(raised.value).isprintable()
    assert "cannot be printed" in raised.value.message


@pytest.mark.parametrize("text", ["", " ", "    "])
def test_an_empty_workstream_is_refused(text: str):
    with pytest.raises(UsageError, match="is empty"):
        parse_workstream(text)


def test_a_workstream_may_have_two_hundred_bytes_and_not_one_more():
    fits = "ü" * (WORKSTREAM_BYTES_MAX // 2)
    assert parse_workstream(fits) == fits
    with pytest.raises(UsageError) as raised:
        parse_workstream(fits + "x")
    assert "201 bytes" in raised.value.message


def test_bytes_are_counted_after_composing():
    assert parse_workstream("u\u0308" * 100) == "ü" * 100


@pytest.mark.parametrize("text", ["Planner", "-x", "_x", "a b", "a/b", "", "é", "a\n", "../x", "٣"])
def test_what_is_no_role_name_is_refused(text: str):
    with pytest.raises(UsageError):
        parse_role(text)


def test_a_role_name_has_a_longest_length():
    assert parse_role("a" * ROLE_CHARACTERS_MAX)
    with pytest.raises(UsageError):
        parse_role("a" * (ROLE_CHARACTERS_MAX + 1))


@given(st.text(max_size=200))
def test_a_shown_name_is_one_printable_line_of_bounded_length(text: str):
    quoted = shown(text)
    assert quoted.isprintable()
    assert len(quoted) <= 12 * 81


def test_a_long_name_is_cut_where_it_is_shown():
    assert shown("x" * 500) == repr("x" * 80 + "…")


def test_base_names_differ_and_can_begin_an_instance_name():
    assert len(set(BASE_NAMES)) == len(BASE_NAMES) == 64
    assert all(name.isalpha() and name.istitle() and "-" not in name for name in BASE_NAMES)
    assert {"Aitana", "Kael", "Lyra", "Zev", "Iago", "Elowen", "Mael"} <= set(BASE_NAMES)


@given(st.text("abc", max_size=5), st.sets(st.sampled_from(BASE_NAMES)))
def test_a_chosen_base_name_is_never_taken(workstream: str, taken: set[str]):
    assert choose_base_name(workstream, taken) not in taken


def test_many_workstreams_get_as_many_base_names():
    taken: set[str] = set()
    for number in range(3 * len(BASE_NAMES)):
        name = choose_base_name(f"spec-{number}", taken)
        assert name not in taken
        taken.add(name)
    assert len({name for name in taken if name.endswith("3")}) == len(BASE_NAMES)


def test_two_processes_choose_the_same_name_for_the_same_workstream():
    assert choose_base_name("spec-42", []) == choose_base_name("spec-42", ())
    assert len({choose_base_name(f"spec-{n}", ()) for n in range(200)}) > 40


@pytest.mark.parametrize(
    ("slot", "expected"), [(1, "Kael-planner"), (2, "Kael-planner~2"), (0, "Kael-planner")]
)
def test_an_instance_name_is_base_name_and_role(slot: int, expected: str):
    key = ConversationKey(project_id=ProjectId("prj"), workstream="s", role="planner", slot=slot)
    conversation = samples.conversation(key=key)
    assert conversation.instance_name == expected
    assert conversation.address == conversation.key.address


@pytest.mark.parametrize("workstream", ["spec-42", "issue-7-export", "x"])
def test_a_plain_workstream_names_its_directory_itself(workstream):
    assert directory_name(workstream) == workstream


def test_any_other_workstream_gets_what_is_left_of_it_and_a_part_of_its_digest():
    assert directory_name("feature/x").startswith("feature-x-")
    assert directory_name("Spec-42") != directory_name("spec-42")
    assert directory_name("日本") == directory_name("日本")
    assert len(directory_name("y" * 200)) < 80


def test_no_workstream_can_be_named_after_the_directory_of_another():
    taken = directory_name("feature/x")
    assert directory_name(taken) != taken


@pytest.mark.extended
@given(st.text(min_size=1, max_size=100))
def test_a_directory_name_means_nothing_in_a_path_or_a_branch(workstream):
    try:
        name = directory_name(parse_workstream(workstream))
    except UsageError:
        return
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)


def test_a_name_that_is_like_a_known_one_is_offered_and_no_other():
    assert did_you_mean("planer", ["planner", "auditor"]) == ". Did you mean 'planner'?"
    assert did_you_mean("zzz", ["planner", "auditor"]) == ""
