"""A scripted model server on loopback, so that real agents run in tests without a network.

    with RehearsalModel() as model:
        ...                     # an agent with model.base_url or model.openai_base_url
        model.requests          # what it sent, each history checked against its provider's rules

It speaks Anthropic Messages, OpenAI Responses and OpenAI Chat Completions. As a program:
`python -m upthread.testing.rehearsal_model --help`. `script` says how prompts drive it, each
protocol's file what it refuses.
"""

from upthread.testing.rehearsal_model.engine import MODEL_ID, RecordedRequest
from upthread.testing.rehearsal_model.protocol import Violation
from upthread.testing.rehearsal_model.server import RehearsalModel

__all__ = ["MODEL_ID", "RecordedRequest", "RehearsalModel", "Violation"]
