"""Secrets that what stands beside them gives away; what stands beside them stays."""

import pytest
from tests.support.secret_corpus import FORMS, sample_of
from tests.support.secret_corpus.written import WRITTEN

from upthread.core.redaction.contexts import CONTEXTS
from upthread.core.redaction.linear import Expression
from upthread.core.redaction.redactor import Redactor

REDACTOR = Redactor(b"k" * 32)


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.family in WRITTEN], ids=lambda form: form.name
)
def test_a_password_is_found_as_people_write_it_down(form):
    sample = sample_of(form, seed=7)
    redacted = REDACTOR.redact(sample.text)
    assert [secret for secret in sample.secrets if secret in redacted] == []
    assert redacted[:4] in (sample.text[:4], "[red")


def test_every_context_is_an_expression():
    for _, pattern, _ in CONTEXTS:
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
