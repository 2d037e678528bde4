"""All that was said of a call, laid together: the stricter counts, and more is never milder."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from upthread.core.outward.repeatable import only_reads
from upthread.core.outward.shell_commands import COMMAND_CHARACTERS_MAX
from upthread.core.shell.call_commands import KINDS
from upthread.core.shell.expected_call import (
    CalledWith,
    Foreseen,
    Told,
    called_with,
    foreseen,
    judged,
    places_of,
)

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
PUSH = {"command": "git push origin main"}

kinds = st.sampled_from([*sorted(KINDS), "other", "", "hologram", None])
titles = st.sampled_from([None, "", "Read README", "git push origin main"])
arguments = st.sampled_from([None, {}, {"path": "a"}, PUSH, {"command": ["git", "push"]}])
tellings = st.builds(
    Told,
    title=titles,
    tool_kind=kinds,
    arguments=arguments,
    locations=st.sampled_from([None, (), ("a",), ("b", "a")]),
)
rules = st.dictionaries(
    st.sampled_from([*sorted(KINDS), "other", "hologram"]),
    st.sampled_from(["allow", "deny", "ask"]),
)


def strictness(whole: Foreseen, given_rules) -> int:
    return STRICTNESS[judged(whole.kinds, given_rules)[0]]


def says_a_kind(said) -> bool:
    return any(each.tool_kind not in {None, "", "other"} for each in said) or any(
        (each.arguments or {}).get("command") for each in said
    )


@given(st.lists(tellings, min_size=1), tellings, rules)
def test_to_say_more_is_never_judged_milder_but_where_nobody_had_said_a_kind(said, more, rules):
    before, after = foreseen(said), foreseen([*said, more])
    if says_a_kind(said):
        assert strictness(after, rules) >= strictness(before, rules)
    assert set(before.locations) <= set(after.locations)
    assert set(before.actions()) <= set(after.actions()) or not any(each.title for each in said)


@pytest.mark.extended
@given(tellings, tellings, rules)
def test_the_stricter_of_two_that_disagree_counts(one, other, rules):
    if says_a_kind([one]) and says_a_kind([other]):
        both = strictness(foreseen([one, other]), rules)
        assert both == max(strictness(foreseen([each]), rules) for each in (one, other))


@given(st.lists(tellings), rules)
def test_the_order_and_a_repetition_change_no_judgement(said, rules):
    assert strictness(foreseen(said), rules) == strictness(foreseen([*said[::-1], *said]), rules)


@given(rules)
def test_what_is_of_no_known_kind_is_denied_where_any_kind_is(rules):
    for told in (Told(), Told(tool_kind="other"), Told(tool_kind="hologram")):
        rule, _ = judged(foreseen([told]).kinds, rules)
        expected = "deny" if "deny" in rules.values() else rules.get("other", "ask")
        assert rule == expected


@pytest.mark.parametrize("kind", [None, "", "other", "read", "hologram"])
def test_a_command_is_executed_whatever_kind_it_calls_itself(kind):
    whole = foreseen([Told(title="Read README", tool_kind=kind, arguments=PUSH)])
    assert "execute" in whole.kinds
    assert whole.tool_kind == "execute"


def test_a_rule_is_told_in_words():
    assert judged({"execute"}, {"execute": "deny"}) == ("deny", "execute=deny")
    assert judged({"edit"}, {}) == ("ask", "edit=ask")
    unknown = "edit=deny, and the kind of this call is not known"
    assert judged({"other"}, {"edit": "deny", "other": "allow"}) == ("deny", unknown)
    assert judged({"other"}, {"other": "deny"}) == ("deny", "other=deny")
    assert judged((), {}) == ("ask", "other")


def test_titles_that_disagree_are_both_shown_and_the_command_with_them():
    whole = foreseen([Told(title="Read README"), Told(title="Look", arguments=PUSH)])
    assert whole.title == "Read README / Look / git push origin main"
    assert foreseen([Told(title="rm"), Told(title="rm -r build")]).title == "rm -r build"
    assert foreseen([Told(title="git push origin main", arguments=PUSH)]).title == PUSH["command"]
    assert foreseen([Told(title="bash"), Told(arguments=PUSH)]).title == PUSH["command"]


def test_a_command_is_not_lost_when_later_arguments_leave_it_out():
    whole = foreseen([Told(arguments=PUSH), Told(arguments={"path": "a"})])
    assert whole.arguments == PUSH
    assert foreseen([Told(arguments={"a": 1}), Told(arguments={"b": 2})]).arguments == {"b": 2}
    assert foreseen([]).arguments is None


def test_every_action_that_was_said_of_a_call_is_one_it_may_do():
    whole = foreseen([Told(title="npm publish", arguments=PUSH), Told(title="Read")])
    families = [each.family for each in whole.actions()]
    assert families == ["npm publish", "push"]
    assert foreseen([Told(title="Read", tool_kind="read")]).actions() == ()
    assert foreseen([Told(title="Read")]).actions(["Rea*"])


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (["edit", "edit"], "edit"),
        (["read", "edit"], "read"),
        (["read", "execute"], "execute"),
        (["hologram"], "other"),
        ([None], "other"),
    ],
)
def test_one_kind_is_kept_for_the_record(said, shown):
    whole = foreseen([Told(title=str(index), tool_kind=kind) for index, kind in enumerate(said)])
    assert whole.tool_kind == shown


@pytest.mark.parametrize("kind", ["read", "search", "edit"])
@pytest.mark.parametrize(
    "told",
    [
        {"arguments": {"cmd": "git push"}},
        {"arguments": {"args": {"command": "git push"}}},
        {"arguments": '{"Command": "git push"}'},
        {"title": "`git push`"},
        {"implied_kinds": frozenset({"execute"})},
    ],
)
def test_what_may_be_a_command_is_judged_as_one_whatever_kind_it_calls_itself(kind, told):
    whole = foreseen([Told(tool_kind=kind, **told)])
    assert whole.kinds == {kind, "execute"}
    assert judged(whole.kinds, {kind: "allow", "execute": "deny"})[0] == "deny"
    assert whole.tool_kind == "execute"


def test_a_call_of_no_kind_is_no_milder_for_what_may_be_a_command():
    whole = foreseen([Told(title="`git push`")])
    assert judged(whole.kinds, {"execute": "allow", "edit": "deny"})[0] == "deny"


def test_what_a_calls_content_implies_is_one_of_its_kinds():
    whole = foreseen([Told(tool_kind="read", implied_kinds=frozenset({"edit"}))])
    assert (whole.kinds, whole.tool_kind) == ({"read", "edit"}, "edit")


def test_all_paths_that_were_said_are_looked_at_wherever_they_stand():
    said = foreseen(
        [
            Told(tool_kind="edit", locations=("a.py",), arguments={"file_path": "b.py", "n": 1}),
            Told(arguments={"filePath": "c.py", "content": "path", "newPath": "a.py"}),
            Told(arguments="d.py"),
        ]
    )
    assert places_of(said) == ("a.py", "b.py", "c.py")


@pytest.mark.parametrize("title", ['bash -c "touch x"', "/bin/sh -lc true", "zsh  -c x"])
def test_a_shell_in_a_title_is_a_command(title):
    assert "execute" in foreseen([Told(title=title, tool_kind="edit")]).kinds


@pytest.mark.parametrize("title", ["publish -c x", "Edit bash.c", "sh", "flash -c x"])
def test_a_title_that_only_holds_a_shells_name_is_none(title):
    assert "execute" not in foreseen([Told(title=title, tool_kind="edit")]).kinds


def test_the_lines_of_a_call_are_told_each_once_with_where_they_run():
    told = Told(tool_kind="execute", arguments={"command": "make", "workdir": "a"})
    other = Told(tool_kind="execute", arguments={"command": ["git", "push"], "cwd": 7})
    lines = foreseen([told, other, structs.replace(told, title="x")]).lines
    assert lines == (("make", "a"), ("git push", ""))
    ship = Told(title="`./ship.sh` ", tool_kind="execute")
    assert foreseen([ship, Told()]).lines == (("./ship.sh", ""),)
    assert foreseen([Told(title="Read README", tool_kind="read")]).lines == ()


def test_a_title_that_is_its_command_on_one_line_says_nothing_of_its_own():
    writing = "cat > later.sh <<'EOF'\ngit push origin main\nEOF"
    folded = " ".join(writing.split())
    assert foreseen([Told(title=folded, arguments={"command": writing})]).actions() == ()
    assert foreseen([Told(title=f"`{folded}`", arguments={"command": writing})]).actions() == ()


def changed(tool: str = "", **told: Any) -> tuple[str, ...] | None:
    return foreseen([Told(**told)]).changed_if_repeatable(tool)


def test_a_repeatable_line_names_what_it_changes_from_where_it_runs():
    def line(command: str, **more: str) -> tuple[str, ...] | None:
        return changed(tool_kind="execute", arguments={"command": command, **more})

    assert line("echo a > b", cwd="d") == ("d", "d/b")
    assert line("cp a ~/c", cwd="d") == ("d", "~/c")
    assert line("pytest") == ()
    assert line("python x.py", cwd="d") is None


def test_a_call_without_a_line_is_repeatable_by_its_kind_or_its_tool():
    assert changed(tool_kind="read") == changed(tool_kind="fetch") == ()
    assert changed(tool_kind="edit", arguments={"path": "a"}) == ("a",)
    assert changed(tool_kind="edit") is None
    assert changed(tool_kind="other") is changed() is None
    assert changed("AskUserQuestion", tool_kind="other") == ()
    assert changed(title="TodoWrite 3", tool_kind="other") == ()


def test_a_servers_tool_that_takes_a_command_is_no_shell():
    command = {"command": "ls"}
    assert changed("mcp__a__run", tool_kind="execute", arguments=command) is None
    assert changed(title="mcp__a__run", tool_kind="execute", arguments=command) is None
    assert changed(title="ls", tool_kind="other", arguments=command) is None


# --- what a call is called with: each of its commands, its paths, what else names its object ------


def of(tool: str, arguments: Any, *, kind: str = "execute", reads: bool = False) -> CalledWith:
    told = foreseen([Told(title=tool, tool_kind=kind, arguments=arguments)])
    return called_with(told, tool=tool, reads_by_commands=reads)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git diff a", ("git diff a",)),
        ("cd b && rm -r c; ls", ("cd b", "rm -r c", "ls")),
        ("sudo rm a", ("sudo rm a", "rm a")),
        ("rm $A", ("rm ?",)),
        ("/bin/bash -lc 'git diff'", ("git diff",)),
        ("./bash -c 'git diff'", ("./bash -c git diff", "git diff")),
        ("bash a.sh", ("bash a.sh",)),
    ],
)
def test_each_command_of_a_line_is_compared_by_itself(line: str, words: tuple[str, ...]):
    assert of("Bash", {"command": line}) == CalledWith(words=words)


HIDING = [
    *("echo git push | sh", "bash -s < x", "alias gp='git push'; gp", "echo push | xargs git"),
    *("env -S 'git push'", "git -c alias.p=push p", "flock l -c 'git push'", "busybox sh -c ls"),
    *("V=push; git $V a", 'p() { git "$@"; }; p push', 'set -- push; git "$@"', "git ${X:-push}"),
    *("bash -c 'git \"$@\"' _ push", "for b in push; do git $b; done", "read a <<<push; git $a"),
]


@pytest.mark.parametrize(
    "arguments", [{}, {"command": "$A b"}, None, *({"command": each} for each in HIDING)]
)
def test_a_command_that_is_not_known_is_called_with_nothing_known(arguments: Any):
    assert of("bash", arguments) == CalledWith()


def test_a_command_without_a_tools_name_is_one_by_its_kind():
    assert of("", {"command": "ls"}) == CalledWith(words=("ls",))


def test_a_command_that_only_reads_is_reading_for_an_agent_that_reads_so():
    known = of("exec_command", {"command": "cat a b"}, reads=True)
    assert known == CalledWith(places=("a", "b"), only_reads=True)
    assert of("exec_command", {"command": "cat a"}) == CalledWith(words=("cat a",))
    assert of("exec_command", {"command": "rm a"}, reads=True) == CalledWith(words=("rm a",))


def test_other_tools_are_called_with_what_names_their_object():
    assert of("Edit", {"file_path": "a"}, kind="edit") == CalledWith(places=("a",))
    assert of("Task", {"subagent_type": "x", "p": 1}, kind="think") == CalledWith(words=("x",))
    assert of("webfetch", {"url": "http://a"}, kind="fetch") == CalledWith(words=("http://a",))
    assert of("webfetch", {"url": 7}, kind="fetch") == CalledWith()
    assert of("webfetch", None, kind="fetch") == CalledWith()
    assert of("mcp__a__b", {"x": "y"}, kind="other") == CalledWith()


# --- what certainly does nothing but read; of all else it is not certain --------------------------


READS = (
    *("cat a", "cat -n 'a b' | head -2", "cat < a", "cat a && ls; pwd", "cat a 2>/dev/null"),
    *("cat a 2>&1", "cat a > /dev/null", "sed -n 1,80p a", "sed -n '1,$p' a", "rg -n word src"),
    *("grep -rn word .", "find . -name 'a.py'", "sort -r a", "bash -lc 'cat a'", "cat *.py"),
    *("/bin/bash -lc \"sh -c 'cat a'\"", "tail -n +3 a", "sort -- a"),
)
NOT_CERTAIN = (
    *("", "# cat a", "rm a", "cat a > b", "cat a >> b", "cat a >| b", "cat a &> b", "cat a >&b"),
    *(
        "cat a > /dev/null/../b",
        "cat $(rm a)",
        "cat `rm a`",
        "cat $A",
        'echo "$(rm a)"',
        "A=b cat a",
    ),
    *("cat <(rm a)", "cat a; rm b", "cat a\nrm b", "ls | tee a", "ls | sh", "./cat a", "bin/cat a"),
    *("cat() { rm a; }; cat a", "alias cat=rm; cat a", "if true; then rm a; fi"),
    *("sed -n '1w b' a", "sed -i s/a/b/ a", "sed -n 1p -i a", "sed -n", "sed 1p a", "awk 1 a"),
    *("find . -delete", "find . -exec rm {} +", "find . -fprint b", "find *", "find {-delete,b}"),
    *("rg --pre=sh a", "rg --pr sh a", "rg -nz a", "rg --hostname-bin=sh a", "sort -o b a"),
    *("sort --output=b a", "sort -ro b a", "sort *", "bash -c 'rm a'", "bash a.sh", "bash -x -c a"),
    *("git log", "env cat a", "cat 'a", "echo a | xargs cat", "rg x *", "rg x ?pre=./a"),
    "cat " + "a" * COMMAND_CHARACTERS_MAX,
)


def test_a_line_of_known_readers_only_reads():
    assert [line for line in READS if not only_reads(line)] == []


def test_of_a_line_with_anything_else_it_is_not_certain():
    assert [line for line in NOT_CERTAIN if only_reads(line)] == []
