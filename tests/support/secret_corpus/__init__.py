"""A corpus of secrets that are none: three hundred forms over sixty channels, and what is found.

Forms are written from what vendors and manuals document, not from the rules they try. Everything is
made by chance from a seed, so that the same version always finds the same.
"""

from tests.support.secret_corpus.channels import CHANNELS, Channel
from tests.support.secret_corpus.forms import FORMS, Sample, SecretForm, sample_of
from tests.support.secret_corpus.recall import Recall, recall_by_family, recall_of_plain_forms

__all__ = [
    "CHANNELS",
    "FORMS",
    "Channel",
    "Recall",
    "Sample",
    "SecretForm",
    "recall_by_family",
    "recall_of_plain_forms",
    "sample_of",
]
