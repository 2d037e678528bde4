"""Secrets that their form alone gives away: every vendor of the corpus, wherever one stands."""

import random
import re
from itertools import product

import pytest
from tests.core.redaction.secrets_of import FAMILIES, IN_CONTEXT
from tests.core.redaction.test_contexts import texts_in
from tests.support.secret_corpus import FORMS as SAMPLES
from tests.support.secret_corpus import sample_of
from tests.support.secret_corpus.tokens import TOKENS

from upthread.core.redaction.contexts import CONTEXTS
from upthread.core.redaction.expressions import Expression
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.rules import FORMS, RULES, painted, rules_of
from upthread.errors import ConfigError

REDACTOR = Redactor(b"k" * 32)
FORM_TEXTS = [text.replace("«", "").replace("»", "") for text in texts_in("forms.txt")]


@pytest.mark.extended
def test_a_token_is_found_by_its_form_alone():
    for form, seed in product((form for form in SAMPLES if form.family in TOKENS), range(2)):
        sample = sample_of(form, seed=seed)
        redacted = REDACTOR.redact(f"it is {sample.text}, they say")
        assert sample.secrets[0][4:] not in redacted, form.name


def test_every_form_is_an_expression_and_named_by_a_family_a_placeholder_can_hold():
    for family, pattern in FORMS:
        assert family.replace("-", "").isalnum(), family
        Expression(pattern)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.needs], ids=lambda rule: rule.family
)
def test_a_rule_with_a_need_finds_nothing_in_a_text_without_it(rule):
    needed, expression = Expression(rule.needs), Expression(rule.pattern)
    for text in map(str.encode, FORM_TEXTS):
        assert needed.is_in(text) or not expression.is_in(text), (rule.pattern, text)


def test_what_only_begins_like_a_token_stays():
    beginnings = ("sk-learn", "ghp_short", "hf_hub_download", "AQ.short")
    for text in (*beginnings, "key-value", "fc-cache -f"):
        assert REDACTOR.redact(text) is text


def test_what_the_secret_is_in_an_expression_is_told_without_compiling_it():
    for _, form, *_ in (*FORMS, *CONTEXTS):
        flags, begins, rest = form.partition(r"\b")
        if begins and flags in {"", "(?i)"}:
            is_wrapped = painted(form).endswith(f"({rest})")
            assert is_wrapped is (re.compile(rest).groups == 0), form


# --- which secrets are found, and what is none ----------------------------------------------------


@pytest.mark.extended
@pytest.mark.parametrize("family", FAMILIES)
def test_a_secret_with_a_form_of_its_own_is_found_wherever_it_stands(family):
    for seed in range(8):
        secret = FAMILIES[family](random.Random(seed))
        for place in ("{}", "a {} b", "({})", '{{"x": "{}"}}', "+{}\n"):
            text = place.format(secret)
            redacted = REDACTOR.redact(text)
            assert secret not in redacted, text
            assert f"[redacted:{family}:" in redacted, redacted


@pytest.mark.extended
@pytest.mark.parametrize("family", IN_CONTEXT)
def test_a_secret_is_found_by_what_stands_beside_it_and_that_stays(family):
    form, make = IN_CONTEXT[family]
    for seed in range(20):
        secret = make(random.Random(seed))
        redacted = REDACTOR.redact(form.format(secret))
        before, after = form.format("\0").split("\0")
        assert secret not in redacted, redacted
        assert redacted.startswith(before + "[redacted:"), redacted
        assert redacted.endswith("]" + after), redacted


def test_there_are_at_least_twenty_families():
    assert len({rule.family for rule in RULES}) >= 20
    assert len(FAMILIES) + len(IN_CONTEXT) >= 20


@pytest.mark.parametrize(
    "text",
    [
        "password = get_password()",
        "token: str",
        "def secret(self, token: Token) -> None:",
        'api_key = os.environ["API_KEY"]',
        "tokens_used=12345678901234567890",
        '{"token": "planner"}',
        '{"next_token": "[redacted:jwt:01234567]"}',
        "postgres://user:password@localhost/app",
        "https://${USER}:${PASSWORD}@host/",
        "PASSWORD=$OTHER",
        "AKIAIOSFODNN7EXAMPLE",
        'if "-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text:',
        "3f786850e387550fdab836ed7e6dc881de23001b is the commit",
        "Bearer authentication is described in RFC 6750",
        "sk-learn-estimator-doc-link",
        "the secret of a good plan: keep it short",
    ],
)
def test_what_is_no_secret_stays(text):
    assert REDACTOR.redact(text) is text


def test_a_rule_of_the_users_own_finds_its_family():
    redactor = Redactor(b"k" * 32, rules=rules_of({"acme-pass": r"ACME-[0-9]{6}"}))
    assert redactor.redact("the badge ACME-123456.").startswith("the badge [redacted:acme-pass:")


def test_a_family_that_no_placeholder_could_name_is_refused():
    with pytest.raises(ConfigError, match="cannot name a family"):
        rules_of({"Acme Pass": "x"})


@pytest.mark.parametrize("before", ["", "\x1b[32m", "\\n", "\\t", "8\t", "\u2192", "-", "("])
def test_a_word_begins_behind_a_colour_and_an_escape(before):
    token = FAMILIES["github-token"](random.Random(1))
    assert REDACTOR.redact(before + token).startswith(before + "[redacted:github-token:")
    assert painted(r"a\b") == r"a\b"
