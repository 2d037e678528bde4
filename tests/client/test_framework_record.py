"""The log that frameworks' stores are made of: its promises L1 to L5, on both databases."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.framework_place import Place
from tests.support.postgres_server import drop_database_at, migrated_database_at
from tests.support.sets import spread
from tests.support.sqlite_faults import statements_of
from tests.support.thoroughness import EXAMPLES

from upthread.core.names import parse_workstream
from upthread.errors import ConfigError, ConflictError, StoreError, UpthreadError, UsageError
from upthread.runtime.record.entry_log import Append, NewEntry, append_together

OPENINGS, EACH = 6, 20


@pytest.fixture(params=spread(["sqlite", "postgres"]))
def place(request, tmp_path):
    if request.param == "sqlite":
        yield Place(tmp_path, str(tmp_path / "record.db"))
        return
    yield Place(tmp_path, migrated_database_at(tmp_path))
    drop_database_at(tmp_path)


@pytest.fixture
def sqlite_place(tmp_path):
    return Place(tmp_path, str(tmp_path / "record.db"))


@pytest.fixture
def record(place):
    with place.open() as opened:
        yield opened


def new(*values: object) -> list[NewEntry]:
    return [NewEntry(value=value) for value in values]


def values(log):
    return [each.value for each in log.entries()]


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["\0", "\ud800", "\udfff x"]
)
any_json = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.soak
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(batches=st.lists(st.lists(any_json, min_size=1, max_size=3), min_size=1, max_size=3))
def test_values_come_back_equal_and_in_order_whichever_opening_appended_them(
    record, place, batches
):
    """L1. Lone surrogates and NUL among them."""
    thread = f"t{abs(hash(str(batches)))}"
    with place.open() as other:
        logs = [record.log("trial", thread), other.log("trial", thread)]
        before = values(logs[0])
        for at, batch in enumerate(batches):
            logs[at % 2].append(new(*batch))
        expected = [*before, *(value for batch in batches for value in batch)]
        for log in logs:
            assert values(log) == expected
            assert list(map(repr, values(log))) == list(map(repr, expected))
            assert [each.seq for each in log.entries()] == list(range(1, len(expected) + 1))


def test_of_many_who_append_after_the_same_entry_one_gets_in_and_nothing_of_the_others(place):
    """L3: with `after`."""
    openings = [place.open() for _ in range(OPENINGS)]
    openings[0].log("trial", "t").append(new("first"))
    first = openings[0].log("trial", "t").stands()

    def attempt(at):
        try:
            openings[at].log("trial", "t").append(new(f"{at} a", f"{at} b"), after=first)
        except ConflictError:
            return None
        return at

    with ThreadPoolExecutor(OPENINGS) as pool:
        won = [at for at in pool.map(attempt, range(OPENINGS)) if at is not None]
    assert len(won) == 1
    assert values(openings[0].log("trial", "t")) == ["first", f"{won[0]} a", f"{won[0]} b"]
    for each in openings:
        each.close()


def speak(place, at):
    with place.open() as opened:
        for word in range(EACH):
            opened.log("trial", "t").append(new([at, word]))


def test_without_after_all_get_in_each_once_and_each_in_its_own_order(place):
    """L3: without."""

    with ThreadPoolExecutor(OPENINGS) as pool:
        list(pool.map(partial(speak, place), range(OPENINGS)))
    with place.open() as opened:
        said = values(opened.log("trial", "t"))
    assert sorted(said) == [[at, word] for at in range(OPENINGS) for word in range(EACH)]
    for at in range(OPENINGS):
        assert [word for who, word in said if who == at] == list(range(EACH))


def test_a_rewrite_beside_appends_loses_none_of_them_and_puts_none_into_what_is_erased(place):
    """L4."""
    with place.open() as opened:
        opened.log("trial", "t").append(new("kept"))
    seen: list[object] = []

    def clean():
        with place.open() as opened:
            for _ in range(EACH):
                told: list[object] = []

                def kept(entries, told=told):
                    told[:] = [each.value for each in entries if each.value != "kept"]
                    return new("kept")

                opened.log("trial", "t").rewrite(kept)
                seen.extend(told)

    with ThreadPoolExecutor(OPENINGS) as pool:
        waiting = [pool.submit(speak, place, at) for at in range(OPENINGS - 1)]
        waiting.append(pool.submit(clean))
        for each in waiting:
            each.result()
    with place.open() as opened:
        left = [value for value in values(opened.log("trial", "t")) if value != "kept"]
    words = [[at, word] for at in range(OPENINGS - 1) for word in range(EACH)]
    assert sorted([*seen, *left]) == words


def test_a_rewrite_that_fails_changes_nothing_and_one_that_succeeds_leaves_no_trace(sqlite_place):
    with sqlite_place.open() as opened:
        log = opened.log("trial", "t")
        log.append(new("stays", "a-word-that-goes"))

        def fails(_):
            raise RuntimeError

        with pytest.raises(RuntimeError):
            log.rewrite(fails)
        assert values(log) == ["stays", "a-word-that-goes"]
        log.rewrite(lambda entries: new(entries[0].value))
        assert values(log) == ["stays"]
        assert log.stands().generation == 2
        opened.scrub()
    for path in sqlite_place.directory.glob("record.db*"):
        assert b"a-word-that-goes" not in path.read_bytes()


def test_several_logs_are_appended_to_together_or_not_at_all(record):
    """L2."""
    one, other = record.log("trial", "one"), record.log("trial", "other")
    nothing = other.stands()
    other.append(new("before"))
    with pytest.raises(ConflictError):
        append_together(
            (Append(log=one, entries=new("a")), Append(log=other, entries=new("b"), after=nothing))
        )
    assert values(one) == []
    append_together((Append(log=one, entries=new("a")), Append(log=other, entries=new("b", "c"))))
    assert (values(one), values(other)) == (["a"], ["before", "b", "c"])


def test_the_conversation_of_another_framework_is_refused_before_anything_is_written(record):
    """L5."""
    record.log("trial", "t", address="shared/writer").append(new("mine"))
    theirs = record.log("another", "t", address="shared/writer")
    with pytest.raises(UsageError, match="shared/writer holds what trial keeps"):
        theirs.append(new("theirs"))
    assert values(record.log("trial", "t", address="shared/writer")) == ["mine"]


def test_text_beside_a_value_is_redacted_and_the_value_itself_is_whole(place, record):
    secret = "sk-ant-api03-" + "A1b2C3d4" * 10
    log = record.log("trial", "t")
    log.append([NewEntry(value={"key": secret}, text=f"the key is {secret}")])
    assert values(log) == [{"key": secret}]
    assert all(secret not in text for text in log.texts())
    assert secret not in place.upthread("audit", "t")
    assert secret not in place.upthread("search", "key")


@pytest.mark.soak
def test_what_a_framework_kept_is_listed_audited_found_and_forgotten_as_all_else_is(place):
    with place.open() as opened:
        opened.log("trial", "t").append([NewEntry(value=[1], text="a remarkable walrus")])
    assert "trial" in place.upthread("ls")
    assert "walrus" in place.upthread("audit", "t")
    assert "walrus" in place.upthread("search", "walrus")
    place.upthread("forget", "t", "--yes")
    with place.open() as opened:
        assert values(opened.log("trial", "t")) == []
    assert "a remarkable walrus" not in place.upthread("search", "walrus")


@pytest.mark.soak
def test_an_audit_says_how_long_a_value_is_and_not_what_is_in_it(place):
    """A value may hold a secret in a form that no redactor reads."""
    with place.open() as opened:
        opened.log("trial", "t").append([NewEntry(value={"in": "d2FscnVz"}, text="a walrus")])
    for form in ("md", "json", "html", "atif", "otel"):
        told = place.upthread("audit", "t", "--format", form)
        assert "d2FscnVz" not in told
    assert '"size_bytes": 17' in place.upthread("audit", "t")
    assert "a walrus" in place.upthread("audit", "t")


def test_why_says_that_a_framework_drives_it(sqlite_place):
    with sqlite_place.open() as opened:
        opened.log("trial", "t").append(new(1))
    assert "leave it to its framework" in sqlite_place.upthread("why", "t/trial")


def test_a_record_that_keeps_no_text_takes_no_framework(sqlite_place):
    (sqlite_place.repository / "upthread.toml").write_text('record = "index"\n')
    with sqlite_place.open() as opened, pytest.raises(ConfigError, match="keeps no text"):
        opened.log("trial", "t")


def test_a_thread_without_a_name_gets_one_that_can_be_typed(sqlite_place):
    with sqlite_place.open() as opened:
        opened.log("trial", "").append(new("x"))
        (known,) = opened.threads("trial")
    assert parse_workstream(known.key.workstream).startswith("thread-")


def test_a_flipped_byte_of_a_value_is_found_and_not_given_to_the_framework(sqlite_place):
    """L6."""
    with sqlite_place.open() as opened:
        opened.log("trial", "t").append(new("a-very-particular-value"))
    path = sqlite_place.directory / "record.db"
    held = path.read_bytes()
    at = held.index(b"a-very-particular-value")
    path.write_bytes(held[:at] + b"A" + held[at + 1 :])
    with sqlite_place.open() as opened, pytest.raises(StoreError):
        values(opened.log("trial", "t"))


def test_a_wrong_key_and_a_newer_version_are_clear_errors_and_change_no_byte(sqlite_place):
    (sqlite_place.repository / "upthread.toml").write_text("")
    with sqlite_place.open() as opened:
        opened.log("trial", "t").append(new("x"))
    path = sqlite_place.directory / "record.db"
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import apsw,sys; apsw.Connection(sys.argv[1]).execute('PRAGMA user_version = 9999')",
            path,
        ],
        check=True,
    )
    before = path.read_bytes()
    with pytest.raises(UpthreadError, match="newer"):
        sqlite_place.open()
    assert path.read_bytes() == before


def test_an_append_is_as_many_statements_after_a_thousand_entries_as_after_three(sqlite_place):
    with sqlite_place.open() as opened:
        log = opened.log("trial", "t")
        log.append(new(1))
        log.append(new(2, 3))
        with statements_of(opened._parts.store.behind) as after_three:
            log.append(new("x"))
        log.append(new(*range(1000)))
        with statements_of(opened._parts.store.behind) as after_a_thousand:
            log.append(new("x"))
        assert after_a_thousand == after_three
        assert len(after_three) == len(["head", "BEGIN", "UPDATE", "INSERT", "COMMIT"])


def test_nothing_is_added_while_a_turn_of_tell_is_open(place, record):
    log = record.log("trial", "t", address="spec/planner")
    log.append(new("before"))
    with pytest.raises(AssertionError):
        place.upthread("tell", "spec/planner", "[[rehearse: rate_limit 9999]]", "--agent=rehearsal")
    with pytest.raises(UsageError, match=r"last turn is open .*tell spec/planner --continue"):
        log.append(new("beside it"))
    place.upthread("tell", "spec/planner", "And now?", "--agent=rehearsal")
    log.append(new("after"))
    assert [value for value in values(log) if value] == ["before", "after"]
