"""What is found: three hundred forms of secrets, each over sixty ways to reach the record."""

import pytest
from tests.support.secret_corpus import (
    CHANNELS,
    FORMS,
    recall_by_family,
    recall_of_plain_forms,
    sample_of,
)
from tests.support.secret_corpus.forms import ENCODED, PRIVATE_KEYS
from tests.support.secret_corpus.recall import kept_of
from tests.support.sets import EXTENDED, SOAK, spread

from upthread.core.redaction.redactor import Redactor

REDACTOR = Redactor(bytes(32))
PLAIN_FORMS_MIN = 300
RECALL_MIN = 0.97


def test_there_are_three_hundred_plain_forms_and_sixty_channels():
    assert sum(form.family != ENCODED for form in FORMS) >= PLAIN_FORMS_MIN
    assert len({(form.family, form.name) for form in FORMS}) == len(FORMS)
    assert len({channel.name for channel in CHANNELS}) == len(CHANNELS) >= 60


@pytest.fixture(
    scope="module",
    params=[20, pytest.param(4, marks=EXTENDED), pytest.param(1, marks=SOAK)],
    ids=lambda number: f"one channel in {number}",
)
def found(request):
    return recall_by_family(one_channel_in=request.param)


@EXTENDED
def test_of_plain_forms_at_least_97_in_100_are_found_and_of_no_family_fewer_than_90(found):
    assert recall_of_plain_forms(found) >= RECALL_MIN
    assert [each for each in found if each.family != ENCODED and each.share < 0.9] == []


@EXTENDED
@pytest.mark.parametrize(
    "form",
    spread([form for form in FORMS if form.family == PRIVATE_KEYS], name=lambda form: form.name),
)
def test_a_private_key_is_kept_nowhere_whatever_the_channel(form):
    assert list(kept_of(form, REDACTOR)) == []


def test_the_corpus_shows_what_is_not_found(found):
    """A corpus that finds everything by mistake would show in this family."""
    (hidden,) = (each for each in found if each.family == ENCODED)
    assert 0 < hidden.share < 0.7


@EXTENDED
def test_a_sample_is_made_by_its_seed_alone():
    for form in FORMS:
        assert sample_of(form) == sample_of(form)
        assert sample_of(form).secrets
        assert all(secret in sample_of(form).text for secret in sample_of(form).secrets)
