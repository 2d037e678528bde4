import contextlib
import hashlib
from importlib import resources

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.roles.limits import RoleLimits
from upthread.core.roles.role import (
    _PLAIN_LINE,
    BUILT_IN_ROLES,
    FRONT_MATTER_CHARACTERS_MAX,
    INSTRUCTIONS_BYTES_MAX,
    Role,
    RoleOverlay,
    _plain_mapping,
    limits_of_front_matter,
    overlaid,
    read_markdown_role,
    read_toml_role,
    without_model,
)
from upthread.errors import ConfigError

CLAUDE = """---
name: Code-Reviewer
description: Reviews code. Use it after every change.
tools: Read, Grep
model: sonnet
---

You review code.

---

Be kind.
"""
OPENCODE = """---
description: Plans the work
mode: subagent
tools:
  write: false
---
You plan.
"""


def markdown(text: str, *, stem: str = "planner") -> Role:
    return read_markdown_role(text, file_stem=stem, source=f"agents/{stem}.md")


def toml(text: str, *, stem: str = "planner") -> Role:
    return read_toml_role(text, file_stem=stem, source=f".codex/agents/{stem}.toml")


LINES = st.one_of(
    st.from_regex(f"\\A{_PLAIN_LINE}\\Z"),
    st.builds("{}: {}".format, st.sampled_from(["name", "tools", "y"]), st.text(max_size=12)),
    st.sampled_from(["", " name: x", "- x", "name:x", "name: x # y", "name: a: b", "name: 'x'"]),
)


@given(st.lists(LINES, max_size=5).map("\n".join))
def test_plain_front_matter_is_what_yaml_makes_of_it(text: str):
    plain = _plain_mapping(text)
    assert plain is None or plain == yaml.BaseLoader(text).get_single_data()


def test_the_shipped_roles_and_what_people_write_most_need_no_parser():
    for file in resources.files("upthread").joinpath("defaults/roles").iterdir():
        front_matter = file.read_text("utf-8").split("---\n")[1].rstrip("\n")
        assert _plain_mapping(front_matter) == yaml.BaseLoader(front_matter).get_single_data()
    assert _plain_mapping("name: a\nname: b") is None
    assert _plain_mapping("name: yes, no; and 'so on'.") == {"name": "yes, no; and 'so on'."}


def test_a_claude_code_agent_is_a_role():
    assert markdown(CLAUDE) == Role(
        name="code-reviewer",
        description="Reviews code. Use it after every change.",
        instructions="You review code.\n\n---\n\nBe kind.",
        limits=limits_of_front_matter({"tools": "Read, Grep", "model": "sonnet"}, "a"),
        source="agents/planner.md",
    )


def test_an_opencode_agent_is_named_by_its_file():
    assert markdown(OPENCODE) == Role(
        name="planner",
        description="Plans the work",
        instructions="You plan.",
        limits=limits_of_front_matter({"mode": "subagent", "tools": {"write": "false"}}, "a"),
        source="agents/planner.md",
    )


@pytest.mark.parametrize("field", ["developer_instructions", "instructions"])
def test_a_codex_agent_is_a_role(field: str):
    role = toml(f'name = "builder"\ndescription = "Builds"\n{field} = """\nYou build.\n"""')
    assert (role.name, role.description, role.instructions) == ("builder", "Builds", "You build.\n")


def test_a_codex_agent_is_named_by_its_file_too():
    assert toml('instructions = "x"').name == "planner"
    assert toml('\ufeffname = "builder"').name == "builder", "behind a byte order mark"


@pytest.mark.parametrize(
    "text", ["You plan.\n", "\ufeffYou plan.", "\r\nYou plan.\r\n", "", "\n---"]
)
def test_a_file_without_front_matter_is_all_instructions(text: str):
    role = markdown(text)
    assert role.name == "planner"
    assert role.instructions == text.removeprefix("\ufeff").strip()


@pytest.mark.parametrize(
    "text",
    ["\ufeff" + OPENCODE, OPENCODE.replace("\n", "\r\n"), OPENCODE.replace("---", "---  ")],
    ids=["byte order mark", "CRLF", "spaces after the dashes"],
)
def test_how_an_editor_saved_the_file_changes_nothing(text: str):
    assert markdown(text) == markdown(OPENCODE)


@pytest.mark.parametrize(
    ("written", "name"),
    [("007", "007"), ("on", "on"), ("1.0e3x", None), ("2024-01-01", "2024-01-01")],
)
def test_a_name_is_text_whatever_yaml_would_make_of_it(written: str, name: str | None):
    text = f"---\nname: {written}\n---\nx"
    if name is None:
        with pytest.raises(ConfigError, match="is not a role name"):
            markdown(text)
    else:
        assert markdown(text).name == name


def test_an_empty_name_is_the_files():
    assert markdown("---\nname:\ndescription:\n---\nx").name == "planner"


def test_dashes_inside_a_block_of_front_matter_do_not_end_it():
    role = markdown("---\ndescription: |\n  first\n  ---\n  last\n---\nYou plan.")
    assert role.description == "first\n---\nlast"
    assert role.instructions == "You plan."


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("---\nname: x\n", "the front matter is not closed"),
        ("---", "the front matter is not closed"),
        ("---\nname: [\n---\n", "not valid YAML"),
        ("---\nname: x\n name: y\n---\n", "not valid YAML"),
        ("---\n\tname: x\n---\n", "not valid YAML"),
        ("---\nname: \x07\n---\n", "not valid YAML"),
        ("---\n- name\n---\n", "not a mapping"),
        ("---\njust words\n---\n", "not a mapping"),
        ("---\nname: [a]\n---\n", "the name is not text"),
        ("---\ndescription: {a: b}\n---\n", "the description is not text"),
        ("---\nname: ../../etc\n---\n", "is not a role name"),
        ("---\n? [a, b]\n: c\n---\n", "not valid YAML"),
        ("---\na: &a [*a]\n---\n", "not valid YAML"),
        ("---\na: 1\n...\n---\nb: 2\n---\n", None),
        ("---\nx: " + "[" * 1_500 + "\n---\n", "not valid YAML"),
        ("---\n" + "x" * (FRONT_MATTER_CHARACTERS_MAX + 1) + "\n---\n", "front matter is too long"),
        ("x" * (INSTRUCTIONS_BYTES_MAX + 1), "the instructions are too long"),
    ],
    ids=range(17),
)
def test_a_broken_file_is_an_error_that_names_it(text: str, fault: str | None):
    if fault is None:
        assert markdown(text).name == "planner"
        return
    with pytest.raises(ConfigError) as raised:
        markdown(text)
    assert raised.value.message.startswith("agents/planner.md")
    assert fault in raised.value.message
    assert "\n" not in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system ['true']", "!!int ''", "!!timestamp x", "!!bool x"]
)
def test_no_tag_is_obeyed(tag: str):
    assert markdown(f"---\nother: {tag}\n---\nx").instructions == "x"


def test_aliases_and_merges_cost_nothing():
    rows = ["a0: &a0 {k: v}"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    rows += ["m0: &m0 {k: v}"]
    rows += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    assert markdown("\n".join(["---", *rows, "---", "x"])).instructions == "x"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name = ", "not valid TOML"),
        ("name = 5", "the name is not text"),
        ("description = ['a']", "the description is not text"),
        ("instructions = 1.5", "the text is not text"),
        ('name = "Über"', "is not a role name"),
        ("x = " + "[" * 100_000, "not valid TOML"),
    ],
    ids=range(6),
)
def test_a_broken_codex_file_is_an_error_that_names_it(text: str, fault: str):
    with pytest.raises(ConfigError) as raised:
        toml(text)
    assert raised.value.message.startswith(".codex/agents/planner.toml")
    assert fault in raised.value.message


@given(st.text(max_size=200))
def test_any_text_is_a_role_or_a_config_error(text: str):
    for read, framed in ((markdown, f"---\n{text}\n---\nx"), (markdown, text), (toml, text)):
        with contextlib.suppress(ConfigError):
            assert read(framed).name


@pytest.mark.parametrize("name", sorted(BUILT_IN_ROLES))
def test_the_agents_own_roles_are_fresh_unless_configured(name: str):
    role = markdown("x", stem=name.title())
    assert (role.name, role.continuity) == (name, "fresh")
    assert overlaid(role, RoleOverlay(continuity="resume")).continuity == "resume"


def test_any_other_role_is_decided_case_by_case():
    assert markdown("x").continuity == "auto"


def test_an_overlay_sets_what_it_says_and_leaves_the_rest():
    role = markdown(OPENCODE)
    overlay = RoleOverlay(continuity="resume", resume_if="planner", is_writing=False, agent="codex")
    after = overlaid(role, overlay)
    assert (after.continuity, after.resume_if, after.agent) == ("resume", "planner", "codex")
    assert (after.instructions, after.source) == (role.instructions, role.source)
    assert overlaid(role, RoleOverlay()) == role


def test_a_roles_configuration_is_a_digest_of_its_instructions_and_of_its_limits_where_it_has_any():
    planner = Role(name="planner", instructions="Plan.")
    elsewhere = structs.replace(planner, source="x", agent="codex")
    assert planner.configuration == elsewhere.configuration == hashlib.sha256(b"Plan.").hexdigest()
    limited = structs.replace(planner, limits=RoleLimits(sandbox="read-only"))
    told = structs.replace(planner, instructions="Plan \ud800.")
    assert planner.configuration not in {limited.configuration, told.configuration}


def test_a_model_that_nobody_agreed_to_is_left_out_and_said():
    planner = markdown("---\nmodel: opus\ntools: Read\n---\nYou plan.\n")
    without = without_model(planner)
    assert (without.limits.model, without.limits.lists) == ("", planner.limits.lists)
    assert without.limits.not_given == ("model: opus",)
    assert without_model(without) == without
