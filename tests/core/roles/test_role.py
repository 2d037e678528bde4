import contextlib
import hashlib
from importlib import resources
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.roles.limits import NO_LIMITS, LimitedCall, RoleLimits, in_words, limited
from upthread.core.roles.role import (
    _PLAIN_LINE,
    BUILT_IN_ROLES,
    FRONT_MATTER_CHARACTERS_MAX,
    INSTRUCTIONS_BYTES_MAX,
    KEY_PARTS_MAX,
    RULES_MAX,
    Role,
    RoleOverlay,
    _plain_mapping,
    limits_of_codex,
    limits_of_front_matter,
    overlaid,
    read_markdown_role,
    read_toml,
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


# --- the limits in a role's file, in the words of three agents; what cannot be read is an error ---


SOURCE = ".opencode/agent/planner.md"


def front(text: str) -> RoleLimits:
    fields: Any = yaml.BaseLoader(text).get_single_data()
    return limits_of_front_matter(fields, SOURCE)


def word(of: RoleLimits, tool: str, *called_with: str) -> str:
    call = LimitedCall(tool=tool, kinds=frozenset({"other"}), called_with=called_with)
    return limited(of, call)[0]


def words(of: RoleLimits, *tools: str) -> list[str]:
    return [word(of, tool) for tool in tools]


@pytest.mark.parametrize(
    "text", ["name: planner", "mode: all", "tools: '*'", "permissionMode: default"]
)
def test_a_file_that_limits_nothing_has_no_limits(text: str):
    assert front(text) == NO_LIMITS
    assert limits_of_codex({"name": "planner", "approval_policy": "on-request"}, "a") == NO_LIMITS


# --- OpenCode's ----------------------------------------------------------------------------------


def test_opencodes_permissions_deny_and_ask():
    rules = ("bash: deny", "edit: ask", "read: allow")
    of = front("permission:\n" + "".join(f"  {rule}\n" for rule in rules))
    found = words(of, "bash", "Edit", "Write", "apply_patch", "read")
    assert found == ["deny", "ask", "ask", "ask", "allow"]
    assert in_words(of) == tuple(f"permission.{rule}" for rule in rules)


def test_opencodes_patterns_are_told_apart():
    of = front(
        'permission:\n  bash:\n    "*": deny\n    "git diff *": allow\n  task:\n    x: deny\n'
    )
    assert word(of, "bash", "git diff a") == "allow"
    assert word(of, "bash", "git push") == "deny"
    assert [word(of, "Task", "x"), word(of, "Task", "y")] == ["deny", "allow"]
    assert "permission.bash.git diff *: allow" in in_words(of)


def test_one_word_is_about_all_tools():
    assert words(front("permission: deny"), "bash", "read", "a_b") == ["deny"] * 3
    assert words(front("permission: ask"), "bash") == ["ask"]


def test_what_is_allowed_is_not_given():
    of = front("permission: allow")
    assert (of.lists, in_words(of)) == ((), ("not given: permission: allow",))
    assert front("permission:\n  bash: allow\n") == NO_LIMITS


def test_opencodes_switches_turn_off_and_never_on():
    of = front('tools:\n  write: false\n  bash: True\n  "github_*": false\n')
    assert words(of, "write", "edit", "bash", "github_a") == ["deny", "deny", "allow", "deny"]
    assert front("tools:\n  bash: true\n") == NO_LIMITS


def test_opencodes_sub_agents_give_no_work_away_unless_their_file_says_so():
    assert words(front("mode: subagent"), "task", "todowrite", "bash") == ["deny", "deny", "allow"]


def test_a_model_with_a_provider_is_opencodes_and_any_other_claude_codes():
    opencode, claude = front("model: a/b-1.5"), front("model: haiku")
    assert (opencode.model_for("opencode"), opencode.model_for("claude-code")) == ("a/b-1.5", "")
    assert (claude.model_for("claude-code"), claude.model_for("opencode")) == ("haiku", "")
    assert front("model: inherit") == NO_LIMITS


# --- Claude Code's -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["tools: Read, Grep", "tools: [Read, Grep]", "tools: |\n Read\n Grep"]
)
def test_claude_codes_tools_are_those_and_no_others(text: str):
    of = front(text)
    assert words(of, "Read", "read", "Grep") == ["allow"] * 3
    assert words(of, "Bash", "Write", "Task", "TodoWrite", "mcp__a__b") == ["deny"] * 5
    assert in_words(of) == ("tools: Read, Grep, and no others",)


def test_an_empty_list_leaves_no_tool():
    of = front("tools: []")
    assert words(of, "Read", "Bash") == ["deny", "deny"]
    assert in_words(of) == ("tools: none, and no others",)


def test_claude_codes_commands_and_sub_agents_are_told_apart():
    of = front("tools: Read, Bash(git diff:*), Bash(ls), Agent(one, two)")
    for line, expected in (("git diff a", "allow"), ("ls", "allow"), ("git push", "deny")):
        assert word(of, "Bash", line) == expected
    found = [word(of, "Task", name) for name in ("one", "two", "three")]
    assert found == ["allow", "allow", "deny"]
    assert front("tools: Read, Bash()") == front("tools: Read, Bash")


def test_what_claude_code_disallows_is_denied():
    of = front("disallowedTools: Edit, Bash(rm:*), mcp__a__*")
    assert words(of, "Edit", "Write", "mcp__a__b", "Read") == ["deny", "deny", "deny", "allow"]
    assert [word(of, "Bash", "rm a"), word(of, "Bash", "ls")] == ["deny", "allow"]
    assert words(front("disallowedTools: Write"), "Edit", "Write") == ["allow", "deny"]
    assert front("disallowedTools: []") == NO_LIMITS
    both = front("tools: Read, Bash\ndisallowedTools: Bash")
    assert words(both, "Read", "Bash") == ["allow", "deny"]


def test_claude_codes_modes_only_tighten():
    plan, silent = front("permissionMode: plan"), front("permissionMode: dontAsk")
    assert words(plan, "Edit", "Write", "Bash", "Read") == ["deny", "deny", "deny", "allow"]
    assert silent.asks_nobody
    for loose in ("acceptEdits", "auto", "bypassPermissions"):
        mode = f"permissionMode: {loose}"
        assert front(mode) == RoleLimits(not_given=(mode,))


# --- Codex's -------------------------------------------------------------------------------------


def test_codexs_settings_only_tighten():
    of = limits_of_codex(
        {"model": "gpt-5", "sandbox_mode": "read-only", "approval_policy": "untrusted"}, "a"
    )
    assert (of.sandbox, of.model_for("codex")) == ("read-only", "gpt-5")
    assert word(of, "exec_command") == "deny"
    assert in_words(of)[:2] == ("sandbox_mode: read-only", "approval_policy: untrusted")
    loose = {"sandbox_mode": "danger-full-access", "approval_policy": "never"}
    assert limits_of_codex(loose, "a") == RoleLimits(
        not_given=("sandbox_mode: danger-full-access", "approval_policy: never")
    )
    assert limits_of_codex({"sandbox_mode": "workspace-write"}, "a").sandbox == "workspace-write"


def test_tables_of_codexs_own_are_no_limits():
    assert limits_of_codex({"tools": {"web_search": True}, "permissions": {}}, "a") == NO_LIMITS


# --- what cannot be read -------------------------------------------------------------------------

MANY = ", ".join(["Read"] * (RULES_MAX + 1))
MANY_RULES = "\n".join(f"  tool{number}: deny" for number in range(RULES_MAX + 1))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("permission: no", "permission"),
        ("permission: []", "permission"),
        ("permission: {}", "permission"),
        ("permission:\n  bash: maybe", "permission.bash"),
        ("permission:\n  bash:\n    rm: never", "permission.bash.rm"),
        ("permission:\n  bash: []", "permission.bash"),
        ("permission:\n  'a b': deny", "permission"),
        (f"permission:\n{MANY_RULES}", "permission"),
        ("tools:\n  bash: off", "tools.bash"),
        ("tools:\n  'a,b': false", "tools"),
        ("tools:\n  bash: [x]", "tools.bash"),
        ("tools:", "tools"),
        ("tools: Read and Grep", "tools"),
        ("tools: [[Read]]", "tools"),
        ("tools: Read(./docs/**)", "tools"),
        (f"tools: {MANY}", "tools"),
        ("disallowedTools: '!'", "disallowedTools"),
        ("permissionMode: yolo", "permissionMode"),
        ("permissionMode: [plan]", "permissionMode"),
        ("mode: other", "mode"),
        ("mode: [all]", "mode"),
        ("model: --resume", "model"),
        ("model:\n  a: b", "model"),
        ("model: " + "a" * 300, "model"),
        ("permissions:\n  bash: deny", "permissions"),
        ("disallowed-tools: Bash", "disallowed-tools"),
        ("allowedTools: Read", "allowedTools"),
        ("Tools: Read", "Tools"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_file_and_key(text: str, key: str):
    with pytest.raises(ConfigError) as caught:
        front(text)
    assert caught.value.message.startswith(f"{SOURCE}: ")
    assert key in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"sandbox_mode": "none"}, "sandbox_mode"),
        ({"sandbox_mode": 7}, "sandbox_mode"),
        ({"approval_policy": {"granular": {}}}, "approval_policy"),
        ({"model": 7}, "model"),
        ({"sandboxMode": "read-only"}, "sandboxMode"),
    ],
)
def test_so_it_is_in_codexs_files(fields: dict[str, Any], key: str):
    with pytest.raises(ConfigError, match=key):
        limits_of_codex(fields, SOURCE)


def test_more_rules_than_are_taken_are_refused_and_no_deny_among_them_is_dropped():
    many = {"bash": "deny", "edit": {f"f{n}": "ask" for n in range(RULES_MAX - 1)}}
    with pytest.raises(ConfigError, match="one for each tool that edits"):
        front(yaml.safe_dump({"permission": many}))


_VALUES = st.recursive(
    st.text(max_size=9) | st.sampled_from(["deny", "allow", "Read, Bash(a:*)", "true", "*"]),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3)
    ),
    max_leaves=5,
)
_KEYS = st.sampled_from(
    ["tools", "permission", "mode", "model", "disallowedTools", "permissionMode"]
)


@pytest.mark.extended
@given(fields=st.dictionaries(_KEYS, _VALUES))
def test_any_value_is_limits_or_an_error(fields: dict[str, object]):
    try:
        of = limits_of_front_matter(fields, SOURCE)
    except ConfigError:
        return
    assert word(of, "Bash", "ls") in {"allow", "ask", "deny"}


# --- tOML that somebody made to stop its reader: an error at once, and ordinary documents as  -----


DOTTED = ".".join(["a"] * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        f"{DOTTED} = 1",
        f"[{DOTTED}]",
        f"[[ {DOTTED} ]]",
        f"x = {{ {DOTTED} = 1 }}",
        f"x = {{ a = 1, {DOTTED} = 1 }}",
        " . ".join(["'a'", '"b.c"'] * KEY_PARTS_MAX) + " = 1",
    ],
    ids=["key", "table", "array of tables", "inline", "second inline", "quoted"],
)
@pytest.mark.timeout(60)
def test_a_key_of_too_many_parts_is_refused_before_it_is_parsed(text: str):
    with pytest.raises(ValueError, match=f"more than {KEY_PARTS_MAX} parts"):
        read_toml(text)


@pytest.mark.parametrize("nested", ["[" * 100_000, "{a=" * 20_000])
def test_values_nested_too_deeply_are_an_error_of_the_document(nested: str):
    with pytest.raises(ValueError, match="nested too deeply"):
        read_toml(f"x = {nested}")


def test_ordinary_documents_are_read_as_they_are():
    text = '\ufeffa.b.c = 1\n["d.e"."f"]\ng = "..a.b.c.." # ' + "x.y." * 99
    assert read_toml(text) == {"a": {"b": {"c": 1}}, "d.e": {"f": {"g": "..a.b.c.."}}}
    assert read_toml('x = "' + "a." * 500 + '"') == {"x": "a." * 500}


def test_what_is_no_toml_is_an_error_with_its_place():
    with pytest.raises(ValueError, match="Invalid value"):
        read_toml("a = ")


def test_a_role_that_starts_fresh_judges_by_itself():
    assert Role(name="validator", continuity="fresh").is_independent
    assert not Role(name="planner").is_independent
