"""What redacting promises: nothing else changes, nothing changes twice, never too slow."""

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.redaction.secrets_of import planted
from tests.support.sets import spread

from upthread.core.redaction.redactor import PASSES_MAX, Redactor
from upthread.core.redaction.rules import rules_of
from upthread.core.redaction.values import PLACEHOLDER, has_placeholder, placeholder
from upthread.errors import ConfigError

KEY = b"a key for tests, of 32 bytes ...."
REDACTOR = Redactor(KEY)
SECRETS = planted(76)
GITHUB = next(secret for family, secret, _ in SECRETS if family == "github-token")

PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from([text for _, _, text in SECRETS]),
    st.sampled_from(
        (
            *("password=", "token: ", '"secret": "', "Bearer ", "://u:", "@h", "\n", " ", "eyJ"),
            *("AKIA", "[redacted:", "[redacted:jwt:01234567]", "-----BEGIN PRIVATE KEY-----\n"),
            *("é", "\ud800", "-----END PRIVATE KEY-----"),
        )
    ),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS)
def test_what_is_not_redacted_is_as_it_was_and_redacting_again_changes_nothing(text):
    redacted = REDACTOR.redact(text)
    place = 0
    for piece in re.split(PLACEHOLDER, redacted):
        found = text.find(piece, place)
        assert found >= 0, (text, redacted)
        place = found + len(piece)
    if redacted == text:
        assert redacted is text
    assert REDACTOR.redact(redacted) == redacted
    document = json.dumps({"command": text, "api_key": "a1b2c3d4e5f6a7b8"})
    assert json.loads(REDACTOR.redact(document)).keys() == {"command", "api_key"}


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_taken(content):
    once = REDACTOR.redact_bytes(content)
    assert REDACTOR.redact_bytes(once) == once


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.extended
@given(JSON)
def test_json_keeps_its_structure_and_is_redacted_once(value):
    once = REDACTOR.redact_json(value)
    assert REDACTOR.redact_json(once) == once
    assert shape(once) == shape(value)


def shape(value):
    if isinstance(value, dict):
        return [shape(each) for each in value.values()]
    if isinstance(value, list):
        return [[shape(each)] for each in value]
    return type(value)


def one_look_finds_nothing(values, redactor=REDACTOR):
    texts = []
    return all(redactor.gather(each, texts) for each in values) and redactor.finds_nothing_in(texts)


@pytest.mark.extended
@given(st.lists(st.one_of(TEXTS, JSON), max_size=4))
def test_where_one_look_finds_nothing_no_look_does(values):
    if one_look_finds_nothing(values):
        for value in values:
            assert REDACTOR.redact_json(value) is value


def test_one_look_finds_a_secret_of_any_family_at_either_end():
    for family, secret, text in planted(76):
        around = ([text, "after"], ["before", text], [["a", {"b": text}]], ["before", {text: 1}])
        for values in around:
            assert not one_look_finds_nothing(values), (family, secret)


def test_one_look_leaves_to_others_what_a_name_or_a_rule_of_the_users_may_hide():
    assert one_look_finds_nothing([{"path": "a1b2c3d4e5f6"}, 1, None, True])
    assert not one_look_finds_nothing([{"password": "plain"}])
    assert not one_look_finds_nothing([[{"a": {"password": "plain"}}]])
    assert not one_look_finds_nothing([{"x" * 100: "plain"}])
    own = Redactor(b"k" * 32, rules=rules_of({"own": "^internal"}))
    assert not one_look_finds_nothing(["plain"], own)


def test_equal_secrets_look_equal_under_one_key_and_not_under_another():
    once, again = REDACTOR.redact(f"{GITHUB} and {GITHUB}").split(" and ")
    assert once == again
    assert Redactor(b"another key of thirty-two bytes").redact(GITHUB) != once
    assert has_placeholder(once)
    assert not has_placeholder("[redacted]")


def test_secrets_side_by_side_are_both_found():
    other = next(secret for family, secret, _ in SECRETS if family == "aws-access-key")
    for text in (f"{GITHUB},{other}", f"{GITHUB}\n{other}", f"password={GITHUB}&x={other}"):
        redacted = REDACTOR.redact(text)
        assert GITHUB not in redacted
        assert other not in redacted


def test_a_placeholder_does_not_hide_what_stands_beside_it():
    hiding = 'password: "[redacted:jwt:00000000]hunter2xyz[redacted:jwt:11111111]tail99"'
    redacted = REDACTOR.redact(hiding)
    assert "hunter2xyz" not in redacted
    assert "tail99" not in redacted
    assert "[redacted:jwt:00000000][redacted:named-secret:" in redacted


def test_a_members_name_is_context():
    told = {"password": "hunter2", "token": "planner", "db_password": "x y", "client_secret": "$A"}
    kept = REDACTOR.redact_json({**told, "pwd": "short", "api_key": "a1b2c3d4e5f6"})
    assert isinstance(kept, dict)
    assert str(kept["password"]).startswith("[redacted:named-secret:")
    assert str(kept["api_key"]).startswith("[redacted:named-secret:")
    assert [kept[name] for name in ("token", "db_password", "client_secret", "pwd")] == [
        *("planner", "x y", "$A", "short")
    ]


def test_names_in_json_lose_their_secrets_too():
    assert list(REDACTOR.redact_json({GITHUB: 1})) == [REDACTOR.redact(GITHUB)]


def test_a_value_without_secrets_is_the_same_object():
    value = {"a": ["b", {"c": 1.5, "d": None}], "password": "${PASSWORD}"}
    assert REDACTOR.redact_json(value) is value


def test_what_the_user_allows_stays():
    redactor = Redactor(KEY, allowed=["ghp_.*", "hunter[0-9]"])
    assert redactor.redact(GITHUB) is GITHUB
    assert redactor.redact_json({"password": "hunter2"}) == {"password": "hunter2"}
    assert redactor.redact_json({"api_key": GITHUB}) == {"api_key": GITHUB}


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"\1"])
def test_an_expression_that_could_backtrack_or_is_none_is_refused(pattern):
    with pytest.raises(ConfigError, match="not an expression of RE2"):
        Redactor(KEY, rules=rules_of({"mine": pattern}))
    with pytest.raises(ConfigError, match="not an expression of RE2"):
        Redactor(KEY, allowed=[pattern])


def test_a_rule_that_cuts_a_character_takes_it_whole():
    redactor = Redactor(KEY, rules=rules_of({"mine": "x(.)."}))
    assert re.fullmatch(rf"x{PLACEHOLDER}y", redactor.redact("xéy"))
    middle = Redactor(KEY, rules=rules_of({"mine": "x.(.)"}))
    assert re.fullmatch(rf"x{PLACEHOLDER}y", middle.redact("xéy"))


def test_a_group_that_took_no_part_and_an_empty_match_do_no_harm():
    redactor = Redactor(KEY, rules=rules_of({"mine": "qq(z)?r?", "none": "w*"}))
    assert re.fullmatch(rf"{PLACEHOLDER}!", redactor.redact("qqr!"))
    assert redactor.redact("abc") == "abc"


def test_a_line_that_never_comes_to_rest_goes_whole():
    redactor = Redactor(KEY, rules=rules_of({"chain": r"(k)(?:\n|$|\[)"}))
    chained = "k" * (PASSES_MAX + 4)
    redacted = redactor.redact(f"before\n{chained}\nafter")
    assert re.fullmatch(rf"before\n{PLACEHOLDER}\nafter", redacted)
    assert "[redacted:line:" in redacted
    assert redactor.redact(redacted) == redacted
    assert re.fullmatch(PLACEHOLDER, redactor.redact(chained))


def test_the_digest_of_what_is_not_kept_needs_the_key():
    assert REDACTOR.digest(b"yes") == REDACTOR.digest(b"yes")
    assert REDACTOR.digest(b"yes") != Redactor(b"another key").digest(b"yes")
    assert len(REDACTOR.digest(b"")) == 32


HOSTILE = {
    "prefixes": "ghp_" * 25_000,
    "jwt without end": "eyJ" * 33_000,
    "dots": "eyJhbGciOi." * 9_000,
    "key block without end": "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA\n" * 6_000,
    "key block openings": "-----BEGIN RSA PRIVATE KEY-----" * 3_000,
    "assignments": "password=" * 11_000,
    "quotes": 'token: "' * 12_000,
    "spaces": "password" + " " * 100_000 + "=",
    "colons": "a://" * 25_000 + ":" * 1_000,
    "curl": "curl -u " * 12_000,
    "placeholders": "[redacted:jwt:01234567]" * 4_000,
    "secrets": "\n".join(text for _, _, text in planted(120)),
    "cookies": "Cookie: a=b; " * 8_000,
    "sessions": "Cookie: a=b; sid=k3v9x2m7q1z8w4t6; " * 200,
    "blocks": "password: >-\n" + "password: | a\\n" * 6_000,
    "nested quotes": "secret" + "\\" * 100_000 + '"',
}


@pytest.mark.parametrize("kind", spread(HOSTILE, first=["quotes", "spaces", "colons"]))
def test_a_long_text_is_read_in_one_go(kind):
    """A reader that went back for each word would run into the time limit."""
    assert isinstance(REDACTOR.redact(HOSTILE[kind] * 10), str)


@pytest.mark.extended
@given(st.integers(min_value=0))
def test_secrets_in_a_long_text_are_all_found(seed):
    chance = random.Random(seed)
    secrets = planted(38, seed=seed)
    chance.shuffle(secrets)
    text = "\n".join(f"{'word ' * chance.randrange(20)}{text}" for _, _, text in secrets)
    redacted = REDACTOR.redact(text)
    assert [secret for _, secret, _ in secrets if secret in redacted] == []


# --- what stands in a text where a secret was -----------------------------------------------------


def test_a_placeholder_names_the_family_and_a_keyed_digest():
    made = placeholder("jwt", b"a secret", b"key").decode()
    assert made.startswith("[redacted:jwt:")
    assert len(made) == len("[redacted:jwt:01234567]")
    assert placeholder("jwt", b"a secret", b"key").decode() == made
    assert placeholder("jwt", b"a secret", b"other").decode() != made


def test_a_placeholder_is_told_from_its_look_alikes():
    assert has_placeholder(f"x {placeholder('jwt', b'', b'').decode()} y")
    for other in ("[redacted]", "[redacted:jwt:0123456]", "[redacted:JWT:01234567]", ""):
        assert not has_placeholder(other)
