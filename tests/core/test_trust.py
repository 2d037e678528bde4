"""Whatever a repository says, without consent nothing is looser than the person's files say."""

import math
import types
import typing
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.redaction.rules import RULES
from upthread.core.roles.role import RoleOverlay
from upthread.core.runs.pipeline import Pipeline, Step
from upthread.core.trust import (
    BEYOND_READING,
    NAMES_SHOWN_MAX,
    SECONDS_MAX,
    TABLE,
    AgentSettings,
    ConfigFile,
    EffectSettings,
    FreshnessTable,
    Item,
    Keep,
    Pending,
    Redaction,
    as_one,
    concerning,
    ignored_notice,
    judge,
    leaves,
    project_settings_item,
    role_file_item,
    row_of,
)

SHIPPED = ConfigFile(
    durability="default",
    depth_max=3,
    start_timeout_s=60,
    prompt_timeout_s=3600,
    roles={"constructor": RoleOverlay(is_writing=True)},
    pipeline=Pipeline(steps=(Step(role="planner", task="Plan."),)),
)
ORDER = {"deny": 0, "ask": 1, "allow": 2}
RECORDED = {"index": 0, "redacted": 1, "full": 2}


# --- every field has a row ---------------------------------------------------------------------


def places(struct: type[msgspec.Struct], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The places of all fields, tables within tables, `*` for a name; a pipeline is one field."""
    found: list[tuple[str, ...]] = []
    for name, kind in typing.get_type_hints(struct).items():
        here = (*above, name)
        inner: Any = kind
        while typing.get_origin(inner) in {typing.Union, types.UnionType}:
            inner = next(each for each in typing.get_args(inner) if each is not type(None))
        if typing.get_origin(inner) is dict and above != ("agents", "*"):
            here, inner = (*here, "*"), typing.get_args(inner)[1]
        is_table = isinstance(inner, type) and issubclass(cast("type[Any]", inner), msgspec.Struct)
        found += (
            places(cast("type[msgspec.Struct]", inner), here)
            if is_table and inner is not Pipeline
            else [here]
        )
    return found


def test_every_field_that_a_file_may_have_has_one_row_and_every_row_a_field() -> None:
    assert sorted(row.field for row in TABLE) == sorted(places(ConfigFile))


def test_what_is_no_field_has_no_row() -> None:
    assert row_of(("roles",)) is None
    assert row_of(("roles", "planner", "sudo")) is None


# --- nothing is looser -------------------------------------------------------------------------

NAMES = st.sampled_from(["planner", "constructor", "nurse", "mine", "opencode"])
WORDS = st.sampled_from(["", "a", "b", "one\ntwo"])
LEVELS = st.none() | st.sampled_from(["full", "redacted", "index"])
NUMBERS = st.none() | st.integers(1, 5)
AGENT = st.none() | st.sampled_from(["mine", "codex", "opencode", "acp:sh -c x"])
OVERLAYS = st.builds(
    RoleOverlay,
    continuity=st.none() | st.sampled_from(["resume", "fresh", "auto"]),
    agent=AGENT,
    is_writing=st.none() | st.booleans(),
    record=LEVELS,
    instructions=st.none() | WORDS,
)
AGENTS = st.builds(
    AgentSettings,
    command=st.lists(WORDS, max_size=2).map(tuple),
    environment=st.dictionaries(WORDS, WORDS, max_size=1),
    inject=st.sampled_from(["auto", "always", "never"]),
    roll_over_when_empty=st.booleans(),
)
RULE_NAMES = st.sampled_from(["acme", "badge", RULES[0].family])


def one_step(role: str, task: str) -> Pipeline:
    return Pipeline(steps=(Step(role=role, task=task),))


FILES = st.builds(
    ConfigFile,
    agent=AGENT,
    durability=st.none() | st.sampled_from(["default", "strict"]),
    record=LEVELS,
    depth_max=NUMBERS,
    start_timeout_s=st.none() | st.sampled_from([1.0, 60.0, 61.0, float(SECONDS_MAX)]),
    prompt_timeout_s=NUMBERS,
    handover=st.none() | st.booleans(),
    roles=st.dictionaries(NAMES, OVERLAYS, max_size=2),
    agents=st.dictionaries(NAMES, AGENTS, max_size=2),
    permissions=st.dictionaries(
        st.sampled_from(BEYOND_READING), st.sampled_from(["allow", "ask", "deny"])
    ),
    redaction=st.builds(
        Redaction,
        rules=st.dictionaries(RULE_NAMES, WORDS, max_size=2),
        allow=st.lists(WORDS, max_size=2).map(tuple),
    ),
    keep=st.builds(Keep, content_days=NUMBERS, stderr_days=NUMBERS),
    freshness=st.builds(
        FreshnessTable,
        critical=st.none() | st.lists(WORDS, max_size=2).map(tuple),
        relays_max=NUMBERS,
        resume_tokens_max=NUMBERS,
    ),
    effects=st.builds(EffectSettings, outward=st.lists(WORDS, max_size=1).map(tuple)),
    pipeline=st.none() | st.builds(one_step, role=NAMES, task=WORDS),
)


def is_no_looser(own: ConfigFile, theirs: ConfigFile) -> bool:
    """By hand, and without the table: what the person wanted still holds with theirs laid over."""
    return all(
        (
            permissions_hold(own, theirs),
            recording_holds(own, theirs),
            redaction_holds(own, theirs),
            agents_hold(own, theirs),
            numbers_hold(own, theirs),
            instructions_hold(own, theirs),
            not (theirs.handover and not own.handover),
            not (theirs.durability == "default" and own.durability == "strict"),
        )
    )


def permissions_hold(own: ConfigFile, theirs: ConfigFile) -> bool:
    return all(
        ORDER[word] <= ORDER[own.permissions.get(kind, "ask")]
        for kind, word in theirs.permissions.items()
    )


def recording_holds(own: ConfigFile, theirs: ConfigFile) -> bool:
    def most(role: str) -> int:
        overlay = own.roles.get(role, RoleOverlay())
        return RECORDED[overlay.record or own.record or "redacted"]

    is_held = all(
        each.record is None or RECORDED[each.record] <= most(name)
        for name, each in theirs.roles.items()
    )
    return is_held and (
        theirs.record is None or RECORDED[theirs.record] <= RECORDED[own.record or "redacted"]
    )


def redaction_holds(own: ConfigFile, theirs: ConfigFile) -> bool:
    shipped = {rule.family for rule in RULES}
    replaced = [
        name
        for name, rule in theirs.redaction.rules.items()
        if own.redaction.rules.get(name, None if name in shipped else rule) != rule
    ]
    return not replaced and all(each in own.redaction.allow for each in theirs.redaction.allow)


def agents_hold(own: ConfigFile, theirs: ConfigFile) -> bool:
    made = {name for name, each in own.agents.items() if each.command or each.environment}
    named = [(theirs.agent, own.agent)] + [
        (each.agent, own.roles.get(name, RoleOverlay()).agent)
        for name, each in theirs.roles.items()
    ]
    is_plain = all(
        name is None or name in {before, own.agent} or (name not in made and ":" not in name)
        for name, before in named
    )
    is_started_as_before = all(not (e.command or e.environment) for e in theirs.agents.values())
    is_seen = all(
        not (own.roles[name].is_writing and each.is_writing is False)
        for name, each in theirs.roles.items()
        if name in own.roles
    )
    return is_plain and is_started_as_before and is_seen


def numbers_hold(own: ConfigFile, theirs: ConfigFile) -> bool:
    def at_most(name: str, table: str = "") -> bool:
        was = getattr(getattr(own, table) if table else own, name)
        now = getattr(getattr(theirs, table) if table else theirs, name)
        return was is None or now is None or now <= was

    kept = [
        now is None or (was is not None and now >= was)
        for was, now in (
            (own.keep.content_days, theirs.keep.content_days),
            (own.keep.stderr_days, theirs.keep.stderr_days),
        )
    ]
    critical = theirs.freshness.critical
    return (
        all(map(at_most, ("depth_max", "start_timeout_s", "prompt_timeout_s")))
        and at_most("relays_max", "freshness")
        and at_most("resume_tokens_max", "freshness")
        and all(kept)
        and (critical is None or set(own.freshness.critical or ()) <= set(critical))
    )


def instructions_hold(own: ConfigFile, theirs: ConfigFile) -> bool:
    if {own.permissions.get(kind) for kind in BEYOND_READING} == {"deny"}:
        return True
    is_same = theirs.pipeline in {None, own.pipeline}
    return is_same and all(
        each.instructions in {None, own.roles.get(name, RoleOverlay()).instructions}
        for name, each in theirs.roles.items()
    )


def laid(over: ConfigFile, under: ConfigFile) -> ConfigFile:
    """A person's file over the shipped one, by hand."""
    said = {
        name: value
        for name in ConfigFile.__struct_fields__
        if (value := getattr(over, name)) not in (None, {})
    }
    roles = dict(under.roles)
    for name, overlay in over.roles.items():
        was = roles.get(name, RoleOverlay())
        changes = {
            f: v for f in overlay.__struct_fields__ if (v := getattr(overlay, f)) is not None
        }
        roles[name] = msgspec.structs.replace(was, **changes)
    return msgspec.structs.replace(under, **{**said, "roles": roles})


@given(own=FILES, theirs=FILES)
def test_without_consent_nothing_is_looser_and_with_it_only_recording_is_left_out(
    own: ConfigFile, theirs: ConfigFile
) -> None:
    judged = judge((SHIPPED, own), theirs)
    without = judged.file(())
    assert is_no_looser(laid(own, SHIPPED), without)
    assert set(without.roles) == set(theirs.roles)
    assert judge((SHIPPED, own), without).items == (), "nothing looser is left to ask for"
    assert leaves(as_one((own, theirs))) == leaves(own) | leaves(theirs)
    counting = leaves(judged.file([item for item, _ in judged.items]))
    said = leaves(theirs)
    assert all(place[-1] == "record" for place in said if place not in counting)
    assert all(said[place] == value for place, value in counting.items())


# --- items -------------------------------------------------------------------------------------


def items(theirs: ConfigFile, *own: ConfigFile) -> dict[str, Item]:
    return {item.name: item for item, _ in judge((SHIPPED, *own), theirs).items}


def test_a_command_and_its_environment_are_agreed_to_together() -> None:
    agent = AgentSettings(command=("a", "b"), environment={"A": "1"}, inject="never")
    judged = judge((SHIPPED,), ConfigFile(agents={"mine": agent}))
    ((item, _),) = judged.items
    said = 'command = ["a", "b"]\nenvironment = {"A": "1"}'
    assert (item.name, item.text) == ("agents.mine", said)
    assert judged.file(()).agents == {"mine": AgentSettings(inject="never")}
    assert judged.file([item]).agents == {"mine": agent}


def test_consent_is_to_the_text_so_another_text_is_another_item() -> None:
    one, two = (ConfigFile(redaction=Redaction(allow=(each,))) for each in ("a", "b"))
    agreed = list(items(one).values())
    assert judge((SHIPPED,), one).file(agreed) == one
    assert judge((SHIPPED,), two).file(agreed) == ConfigFile()
    assert items(one)["redaction.allow"].digest != items(two)["redaction.allow"].digest


def test_no_two_pipelines_are_shown_alike() -> None:
    """A task cannot write what looks like the next key, or the next step."""
    honest = Pipeline(steps=(Step(role="planner", task="a\nb"), Step(role="nurse", task="c")))
    forged = Pipeline(steps=(Step(role="planner", task='a\nb\nstep 2:\nrole = "nurse"'),))
    texts = [items(ConfigFile(pipeline=each))["pipeline"].text for each in (honest, forged)]
    assert texts[0].count("\nstep 2:") == 1
    assert "\nstep 2:" not in texts[1]
    assert "| step 2:" in texts[1]


def test_a_rule_that_takes_a_shipped_name_asks_and_the_persons_own_said_again_does_not() -> None:
    mine = ConfigFile(redaction=Redaction(rules={"acme": "x"}))
    assert items(ConfigFile(redaction=Redaction(rules={RULES[0].family: "x"})))
    assert not items(mine, mine)
    assert not items(mine)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_compares_with_nothing_is_no_smaller_one(number: float) -> None:
    assert "prompt_timeout_s" in items(ConfigFile(prompt_timeout_s=number))


def test_where_a_key_of_the_database_is_no_repository_says() -> None:
    judged = judge((SHIPPED,), ConfigFile(encryption_key="file:/k"))
    assert judged.items == (), "there is nothing to agree to"
    assert judged.file(()) == ConfigFile()


def pending_setting(name: str, role: str = "") -> Pending:
    return Pending(item=Item(kind="setting", name=name, text="", role=role))


def test_what_is_ignored_is_named_on_one_line_with_the_cure() -> None:
    pending = [
        Pending(item=role_file_item(f"agents/{n}\n.md", "x", role="r"), instead="shipped is used")
        for n in range(NAMES_SHOWN_MAX + 2)
    ]
    told = ignored_notice(pending)
    assert "\n" not in told
    assert told.endswith("and 2 more; see upthread trust")
    assert "(shipped is used)" in told
    assert "(" not in ignored_notice([pending_setting("keep")])
    assert ignored_notice(()) == ""


def test_what_concerns_a_verb_is_its_tables_and_its_roles() -> None:
    edit = pending_setting("permissions.edit")
    told = pending_setting("roles.planner.instructions", role="planner")
    nurse = Pending(item=role_file_item("agents/nurse.md", "", role="nurse"))
    found = [pending_setting("keep.content_days"), edit, told, nurse]
    assert [*concerning(found, tables=("permissions",), roles=("planner",))] == [edit, told]


def test_what_a_directory_says_to_an_agent_itself_concerns_whoever_uses_that_agent() -> None:
    item = project_settings_item("opencode", (".opencode",))
    assert (item.name, ".opencode" in item.text) == ("agents.opencode.project_settings", True)
    assert not item.is_of_another("opencode")
    assert item.is_of_another("codex")
    assert not pending_setting("agents.x.command").item.is_of_another("codex")
