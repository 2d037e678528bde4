"""Recall: of how many texts that hold a secret none of it is kept, by family."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.support.secret_corpus.channels import CHANNELS, Channel
from tests.support.secret_corpus.forms import ENCODED, FORMS, SecretForm, sample_of

from upthread.core.redaction.redactor import Redactor

TELLING_CHARACTERS = 6
"""A kept piece of a secret that is shorter tells too little to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What was found of one family, over all channels."""

    family: str
    forms: int
    texts: int
    found: int

    @property
    def share(self) -> float:
        """How many of the texts were found, from 0 to 1."""
        return self.found / self.texts


def recall_by_family(
    redactor: Redactor | None = None, *, one_channel_in: int = 1
) -> tuple[Recall, ...]:
    """Return what a redactor finds, by family in the order of the forms.

    Of `one_channel_in` channels one is tried, for each form another, so that all are.
    """
    redactor = redactor or Redactor(bytes(32))
    families = dict.fromkeys(form.family for form in FORMS)
    return tuple(_recall(family, redactor, one_channel_in) for family in families)


def recall_of_plain_forms(found: tuple[Recall, ...]) -> float:
    """Return the share over all families but those that were encoded to hide."""
    plain = [each for each in found if each.family != ENCODED]
    return sum(each.found for each in plain) / sum(each.texts for each in plain)


def kept_of(
    form: SecretForm, redactor: Redactor, channels: Sequence[Channel] = CHANNELS
) -> Iterator[tuple[str, str]]:
    """Yield (channel, what is kept) wherever something of the form's secret is."""
    sample = sample_of(form)
    for channel in channels:
        kept = channel.keep(redactor, sample.text)
        if any(_is_in(secret, kept) for secret in sample.secrets):
            yield channel.name, kept


def _recall(family: str, redactor: Redactor, one_channel_in: int) -> Recall:
    forms = [form for form in FORMS if form.family == family]
    texts = missed = 0
    for at, form in enumerate(forms):
        channels = CHANNELS[at % one_channel_in :: one_channel_in]
        texts += len(channels)
        missed += sum(1 for _ in kept_of(form, redactor, channels))
    return Recall(family=family, forms=len(forms), texts=texts, found=texts - missed)


def _is_in(secret: str, kept: str) -> bool:
    """Return whether a secret is kept, or an end of it that is telling."""
    ends = (secret[:-1], secret[1:]) if len(secret) > TELLING_CHARACTERS else (secret,)
    return any(end in kept for end in ends)
