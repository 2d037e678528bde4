"""Which values may be secrets, and which are names, templates or examples."""

import base64
from pathlib import Path

import pytest
from tests.support.secret_corpus import FORMS, sample_of
from tests.support.secret_corpus.written import WRITTEN

from upthread.core.redaction.contexts import CONTEXTS
from upthread.core.redaction.expressions import Expression
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.values import (
    anything,
    entropy_bits,
    hides_a_secret,
    is_a_pair,
    is_assigned,
    is_chosen,
    is_no_example,
    is_real,
    is_set,
    looks_random,
)


def test_a_word_is_neither_random_nor_chosen():
    assert looks_random(b"a1b2c3d4e5f6")
    assert not looks_random(b"planner")
    assert not looks_random(b"12345678")
    assert not looks_random(b"a1a1a1a1a1a1a1")
    assert is_chosen(b"hunter2")
    assert not is_chosen(b"correct-horse")
    assert not is_chosen(b"123456")
    assert not is_chosen(b"password")


def test_templates_dummies_and_examples_are_not_real():
    for value in (b"", b"${TOKEN}", b"<token>", b"changeme", b"xxxxxxxx", b"********", b'"null"'):
        assert not is_real(value)
    assert is_real(b"correcthorse")
    assert not is_no_example(b"AKIAIOSFODNN7EXAMPLE")
    assert entropy_bits(b"") == 0
    assert entropy_bits(b"ab") == 1


def test_a_value_without_quotes_is_a_password_when_no_name_in_code_is_like_it():
    for value in (b"harbour73", b"Winter!2026", b"aB3dE5fG7h", b"pa55+w0rd"):
        assert is_assigned(value), value
    for value in (
        *(b"argument1", b"sha256", b"self.password2", b"config::db1", b"path/to/file1"),
        *(b"12345", b"10.5px", b"@name1", b"key=value1", b"label1:"),
    ):
        assert not is_assigned(value), value


REDACTOR = Redactor(b"k" * 32)


def texts_in(name: str) -> list[str]:
    """Return the texts of a file beside this one, which lines of `===` separate."""
    return (Path(__file__).parent / name).read_text("utf-8").removesuffix("\n").split("\n===\n")


@pytest.mark.parametrize("marked", texts_in("forms.txt"))
def test_a_secret_as_tools_and_people_write_it_goes_and_what_is_around_it_stays(marked):
    pieces = marked.replace("»", "«").split("«")
    found = REDACTOR.redact("".join(pieces))
    assert [secret for secret in pieces[1::2] if secret in found] == []
    assert found.startswith(pieces[0])
    assert found.endswith(pieces[-1])
    assert REDACTOR.redact(found) is found


@pytest.mark.parametrize("text", texts_in("ordinary.txt"))
def test_an_ordinary_text_about_secrets_stays(text):
    assert REDACTOR.redact(text) is text


def test_a_word_in_capitals_is_the_name_of_what_belongs_there():
    assert is_set(b"geheimnis")
    assert not is_set(b"NEW_PASSWORD")
    assert not is_set(b"<password>")
    assert anything(b"")


def test_names_of_things_are_not_random():
    assert not looks_random(b"arn:aws:iam::123456789012:user/abc")
    assert not looks_random(b"messages_1.Messages.MissingFrom2")
    assert not is_real(b"wJalrXUtnFEMIEXAMPLEKEY")


def test_a_pair_is_the_base64_of_a_user_and_a_password():
    assert is_a_pair(base64.b64encode(b"app:geheim"))
    for value in (b"no base64", base64.b64encode(b"no colon"), base64.b64encode(b":x"), b"x:y="):
        assert not is_a_pair(value), value


# --- secrets that what stands beside them gives away; what stands beside them stays ---------------


@pytest.mark.extended
def test_a_password_is_found_as_people_write_it_down():
    for form in (form for form in FORMS if form.family in WRITTEN):
        sample = sample_of(form, seed=7)
        redacted = REDACTOR.redact(sample.text)
        assert [secret for secret in sample.secrets if secret in redacted] == [], form.name
        assert redacted[:4] in (sample.text[:4], "[red"), form.name


def test_every_context_is_an_expression():
    for _, pattern, *_ in CONTEXTS:
        Expression(pattern)


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/home/ann/project",
        "password = args.password1",
        "password: str | None = None",
        "use --password to say which one",
        "app --password PASSWORD --token TOKEN",
        "def login(user, password): return check(user, password)",
        "the library is identified by `name1` or 'name'",
        "mysql -p asks for it",
        "<label>Password</label>",
        "2001:0000:5ef5:79fd:0000:059d:a0e5:0ba1",
        'PYTHONPATH="/usr/lib/python3.11/site-packages"',
    ],
)
def test_what_only_speaks_of_a_password_stays(text):
    assert REDACTOR.redact(text) is text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Cookie: a=b; sessionid=k3v9x2m7q1z8w4t6", "k3v9x2m7q1z8w4t6"),
        ("Set-Cookie: connect.sid=s%3Ak3v9x2m7q1z8.w4t6Zz; Path=/", "k3v9x2m7q1z8"),
        ('psk="correct horse 7"', "correct horse 7"),
        ("net user bob Aq1!zork /add", "Aq1!zork"),
        ('auth=("bob","Aq1!zork")', "Aq1!zork"),
        ("WITH PASSWORD = N'Aq1!zork'", "Aq1!zork"),
        ("   8\tpassword: >-\n   9\t  Aq1!zork\n  10\thost: db", "Aq1!zork"),
    ],
)
def test_of_what_an_attacker_found_kept_nothing_is(text, secret):
    assert secret not in REDACTOR.redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "Set-Cookie: theme=a-dark-and-quiet-one; Max-Age=2592000; Path=/",
        "psk = config.psk1",
        "the net user base grew in 2026",
        'auth=("user", "password")',
        "password: |\n  The password of the user.\n",
        "rabbitmqctl add_user NAME PASSWORD",
    ],
)
def test_what_looks_like_these_and_holds_no_secret_stays(text):
    assert REDACTOR.redact(text) is text


S = "q7Zt4WmK9xRb2LdV8nHcY3Pf"
"""Made up, and random to whoever looks."""


@pytest.mark.parametrize(
    "text",
    [
        f"GET /v1/items?access_token={S}&page=2",
        f"GET /k?X-Amz-Date=20261127&X-Amz-Signature={S}",
        f"JSESSIONID={S}",
        f"users:\n- name: admin\n  user:\n    token: {S}",
        f"npm config set //registry.corp.lan/:_authToken {S}",
        f"aws configure set aws_secret_access_key J/{S}",
        f"gh secret set TOKEN --body {S}",
        f"vault kv put secret/app key={S}",
        f'{{"password":\n    "{S}"}}',
        f"API_KEY={S}\\\n{S}",
        f"Enter passphrase for key: {S}",
        f"ALTER ROLE app PASSWORD '{S}'",
        f"|| SecretAccessKey | {S} ||",
        f"api_key        {S}\nhost  x",
        f'"db_password": {{ "sensitive": true, "value": "{S}" }}',
        f"Unseal Key 1: {S}",
        f"PresharedKey = {S}=",
        f"$ pass show infra/router\n{S}",
        f"127.0.0.1:6379> AUTH default {S}",
        f"net use Z: \\\\files\\x /user:CORP\\svc {S} /persistent:no",
        f'expect "assword:"\nsend "{S}\\r"',
        f"username netops password 0 {S}",
        f"app:{S}@tcp(mysql-1:3306)/billing",
        f'DriverManager.getConnection("jdbc:x", "hr", "{S}")',
        f"#HttpOnly_x\tFALSE\t/\tTRUE\t0\tPHPSESSID\t{S}",
        f"Passwort: {S}",
    ],
)
def test_a_secret_is_found_in_what_tools_and_people_write(text):
    assert S not in Redactor(b"k" * 32).redact(text)


def test_what_base64_hides_is_a_secret_where_it_names_one():
    told = base64.b64encode(f"DB_PASSWORD={S}\n".encode() * 2)
    assert hides_a_secret(told)
    assert told.decode() not in Redactor(b"k" * 32).redact(f"echo '{told.decode()}' | base64 -d")
    assert not hides_a_secret(base64.b64encode(b"git push origin main && echo done " * 2))
    assert not hides_a_secret(b"not base64 at all!")
