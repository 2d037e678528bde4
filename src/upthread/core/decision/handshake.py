"""The handshake: how to attach to a conversation, and why, decided before anything is spent.

One table of rules in order of priority (core/decision/rules.py); the first that applies decides,
the others that apply and lead to the same decision are told as further reasons. Pure: the runtime
gathers the inputs and carries the decision out. Whatever is decided is shown to the person who
asked: never silently fresh.
"""

from collections.abc import Sequence

from upthread.core.agents import in_profile
from upthread.core.decision import words
from upthread.core.decision.freshness import Freshness
from upthread.core.decision.model import HandshakeInputs, worth_keeping
from upthread.core.decision.rollover import ROLLOVER
from upthread.core.decision.rules import PROFILE, RULES
from upthread.core.decision.words import CHANGED_NAMED_MAX, OTHER_REASONS, REFUSE, because_in_words
from upthread.core.text import command, visible_line
from upthread.core.types import Decision, Outcome

_SAYS = {
    **{
        str(outcome): row.says
        for outcome, row in ROLLOVER.items()
        # As a reason `unknown` is that nobody kept one: OTHER_REASONS.
        if outcome is not Outcome.UNKNOWN
    },
    **{rule.reason: rule.says for rule in RULES},
}
"""What is said of a reason: of an outcome that a link ended for, and of each rule."""


def decide(inputs: HandshakeInputs) -> Decision:
    """Return the decision, its reasons (the deciding one first) and its inputs."""
    # All of them and not the first alone: the further ones are told as reasons.
    applying = [rule for rule in RULES if rule.applies(inputs)]
    deciding = applying[0]
    is_refused = deciding.decision == REFUSE
    # Reasons for something else than what is done would read as a contradiction.
    also = [
        rule.reason
        for rule in applying[1:]
        if rule.decision == deciding.decision or (rule.is_always_told and not is_refused)
    ]
    return Decision(
        decision=deciding.decision,
        reasons=(deciding.reason, *also),
        hint=deciding.hint.replace(PROFILE, command(*in_profile(inputs.other_profile))),
        inputs=worth_keeping(inputs),
    )


def in_words(reason: str) -> str:
    """Return the sentence a person reads for a reason code; unknown codes stand for themselves."""
    if reason in _SAYS:
        return _SAYS[reason]
    return OTHER_REASONS.get(reason, reason.replace("_", " "))


def is_known(reason: str) -> bool:
    """Return whether a reason has words of ours."""
    return reason in _SAYS or reason in OTHER_REASONS


def because(reasons: Sequence[str], found: Freshness) -> str:
    """Return why a decision was taken, in words; empty for a plain one.

    The files that changed are named where they are the reason.
    """
    is_about_files = not _ABOUT_FILES.isdisjoint(reasons)
    changed = found.changed[:CHANGED_NAMED_MAX] if is_about_files else ()
    return because_in_words(
        reasons,
        _on_a_line,
        changed=[visible_line(each.path) for each in changed],
        changed_count=found.changed_count,
    )


def reasons_in_words(reasons: Sequence[str]) -> str:
    """Return reason codes as sentences, the deciding one first, whatever the decision was."""
    return words.reasons_in_words(reasons, _on_a_line)


def _on_a_line(reason: str) -> str:
    return visible_line(in_words(reason))


_ABOUT_FILES = frozenset(rule.reason for rule in RULES if rule.is_about_files)
