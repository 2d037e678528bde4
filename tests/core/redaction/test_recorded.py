"""What tools of the real agents emitted, redacted as it is before it is kept."""

import json

import pytest
from tests.core.redaction.recording import FILES, RECORDED, Recording, secrets_in
from tests.support.secret_corpus.channels import settled

from upthread.core.redaction.redactor import Redactor

REDACTOR = Redactor(b"k" * 32)
RECORDINGS = [Recording.read(path) for path in sorted(RECORDED.glob("*.json"))]


@pytest.fixture(params=RECORDINGS, ids=lambda recording: recording.agent)
def recording(request):
    return request.param


def test_all_three_agents_are_recorded():
    agents = {recording.agent for recording in RECORDINGS}
    assert agents == {"claude-code", "codex", "opencode"}


def test_the_tools_did_show_every_secret(recording):
    assert secrets_in(recording.emitted) == secrets_in(FILES.values())


@pytest.mark.extended
def test_nothing_of_a_secret_is_kept(recording):
    for text in recording.emitted:
        assert secrets_in([REDACTOR.redact(text)]) == [], text


@pytest.mark.extended
def test_nothing_of_a_secret_is_kept_of_json_or_of_pieces(recording):
    for text in recording.emitted:
        assert secrets_in([REDACTOR.redact(json.dumps({"output": text}))]) == [], text
        assert secrets_in([settled(REDACTOR, text, size=100)]) == [], text
