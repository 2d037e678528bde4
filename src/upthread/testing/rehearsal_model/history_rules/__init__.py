"""What each provider refuses about a history, one small function per rule.

An independent check: it shares no code with the rest of upthread, so that a fault in what upthread
sends cannot hide behind the same fault here. The words are the providers' own, from their
documentation and from errors that users quote in public threads (seen up to 2026-11).
"""

from upthread.testing.rehearsal_model.history_rules._rule import (
    Found,
    Rule,
    Violation,
    apply_rules,
)
from upthread.testing.rehearsal_model.history_rules.chat_completions import (
    CHAT_COMPLETIONS_RULES,
)
from upthread.testing.rehearsal_model.history_rules.messages import MESSAGES_RULES, sign_thinking
from upthread.testing.rehearsal_model.history_rules.responses import RESPONSES_RULES

__all__ = [
    "CHAT_COMPLETIONS_RULES",
    "MESSAGES_RULES",
    "RESPONSES_RULES",
    "Found",
    "Rule",
    "Violation",
    "apply_rules",
    "sign_thinking",
]
