"""Secrets that their form alone gives away: every vendor of the corpus, wherever one stands."""

import re

import pytest
from tests.support.secret_corpus import FORMS as SAMPLES
from tests.support.secret_corpus import sample_of
from tests.support.secret_corpus.tokens import TOKENS

from upthread.core.redaction.contexts import CONTEXTS
from upthread.core.redaction.forms import FORMS
from upthread.core.redaction.linear import Expression
from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.rules import painted

REDACTOR = Redactor(b"k" * 32)


@pytest.mark.parametrize(
    "form", [form for form in SAMPLES if form.family in TOKENS], ids=lambda form: form.name
)
def test_a_token_is_found_by_its_form_alone(form):
    for seed in range(5):
        sample = sample_of(form, seed=seed)
        assert sample.secrets[0][4:] not in REDACTOR.redact(f"it is {sample.text}, they say")


def test_every_form_is_an_expression_and_named_by_a_family_a_placeholder_can_hold():
    for family, pattern in FORMS:
        assert family.replace("-", "").isalnum(), family
        Expression(pattern)


def test_what_only_begins_like_a_token_stays():
    for text in (
        "sk-learn",
        "ghp_short",
        "hf_hub_download",
        "AQ.short",
        "key-value",
        "fc-cache -f",
    ):
        assert REDACTOR.redact(text) is text


def test_what_the_secret_is_in_an_expression_is_told_without_compiling_it():
    for _, form, *_ in (*FORMS, *CONTEXTS):
        flags, begins, rest = form.partition(r"\b")
        if begins and flags in {"", "(?i)"}:
            is_wrapped = painted(form).endswith(f"({rest})")
            assert is_wrapped is (re.compile(rest).groups == 0), form
