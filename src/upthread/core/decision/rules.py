"""The rules of the handshake, in order of priority: the first that applies decides.

Theory of operation. A call that must not be made is refused before anything else. Then what a
person or the role's policy wants; then a session that is gone, which nothing can resume; then what
makes a session not worth resuming: it is too far from what is there (files), too full or too dear.
What is left is resumed, with an update where there is something to tell. No rule looks at another.
"""

from upthread.core.decision.model import HandshakeInputs, Rule
from upthread.core.decision.rollover import LOST, ROLLOVER
from upthread.core.decision.words import (
    FIRST,
    OTHER_PROFILE,
    REFUSE,
    RESUME,
    RESUME_WITH_REPLAY,
    RESUME_WITH_UPDATE,
    START_FRESH,
    TOKENS_MAX,
)
from upthread.core.types import Outcome

RELAYED = "nearly_full"
"""The reason under which a session is relayed; links that were opened for it count as relays."""

OLDER_RECORD = "older_record"
"""The reason under which turns are read back that only the agent's own session has."""

SESSION_EMPTY = "session_empty"
CANNOT_RESUME = "cannot_resume"
"""The reason under which a session is left that never got a prompt of ours."""

PROFILE = "PROFILE"
"""Stands in a hint for the variable with the place of the profile that has the session."""

OLDER_SESSION = "older_session"
"""The reason under which a session is told again what it no longer holds."""

NOT_COMPARED = "not_compared"
"""The reason that says that a session could not be compared with the record."""


def _is_nearly_full(inputs: HandshakeInputs) -> bool:
    share = inputs.price.window_share
    # A window that nobody told the size of is never full: no rule rests on a guess (ADR 82).
    return share is not None and share >= inputs.limits.window_share_max


def _is_too_big(inputs: HandshakeInputs) -> bool:
    most, resume = inputs.limits.resume_tokens_max, inputs.price.resume
    return most is not None and resume is not None and resume.count > most


def _is_briefing_cheaper(inputs: HandshakeInputs) -> bool:
    least, times = inputs.limits.brief_if_times_cheaper, inputs.price.times_cheaper
    # While it is warm, what a session holds is read at about a tenth of the price.
    is_cold = inputs.price.cache == "cold"
    return is_cold and least is not None and times is not None and times >= least


def _lost_for(outcome: Outcome) -> Rule:
    return Rule(
        outcome,
        RESUME_WITH_REPLAY,
        applies=lambda inputs: inputs.session_lost is outcome,
        says=ROLLOVER[outcome].says,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        # Before `busy`, which holds as well: whoever waits for themselves would wait for ever.
        "own_or_ancestor",
        REFUSE,
        applies=lambda i: i.conversation_id in i.callers,
        says="the call comes from inside this very conversation",
        hint="an agent cannot delegate to itself or to one that waits for it: ask another role",
    ),
    Rule(
        "depth",
        REFUSE,
        applies=lambda i: len(i.callers) >= i.depth_max,
        says="delegations are nested too deeply",
        hint="raise depth_max in upthread.toml if this is wanted",
    ),
    Rule(
        "busy",
        REFUSE,
        applies=lambda i: i.holder is not None,
        says="another turn of this conversation is running",
        hint="wait for it with --wait, or open a sibling with --sibling",
    ),
    Rule(
        "tree_busy",
        REFUSE,
        applies=lambda i: i.tree_holder is not None,
        says="another role is writing in this working tree",
        hint="wait for it with --wait, or give a run a tree of its own: upthread run WS --worktree",
    ),
    Rule(
        TOKENS_MAX,
        REFUSE,
        applies=lambda i: i.spending is not None and i.spending.is_over,
        says="the tokens that were allowed are used up, or this turn would pass them",
        hint="allow more with --tokens-max, or leave it out",
    ),
    Rule(
        "none_yet",
        FIRST,
        applies=lambda i: i.turns == 0 and i.current_agent is None and i.session_lost not in LOST,
        says="no session yet",
    ),
    Rule(
        # What a person or the role wants comes before what became of the session: who asks for a
        # fresh one shall not be told the old one's words, even where it is lost.
        "asked",
        START_FRESH,
        applies=lambda i: i.is_fresh_asked,
        says="a fresh session was asked for",
    ),
    Rule(
        "policy",
        START_FRESH,
        applies=lambda i: i.continuity == "fresh",
        says="the role starts fresh every time",
    ),
    Rule(
        "input_changed",
        START_FRESH,
        applies=lambda i: i.condition_before not in {None, i.condition_now},
        says="what the role judged last time has changed",
    ),
    # Sorted, since a set has no order: the docs' table and the reasons come out the same each time.
    *map(_lost_for, sorted(LOST)),
    Rule(
        # A first turn and no resumption: role and context have not been given to anybody yet.
        SESSION_EMPTY,
        FIRST,
        applies=lambda i: i.is_session_empty,
        says="the session holds nothing: its first prompt was stopped before the agent stored it",
    ),
    Rule(
        "refused",
        RESUME_WITH_REPLAY,
        applies=lambda i: i.is_refused,
        says="the agent refused the session again and again",
    ),
    Rule(
        # Replayed and not briefed, here and below: the conversation goes on (ADR 81).
        "other_agent",
        RESUME_WITH_REPLAY,
        applies=lambda i: i.current_agent is not None and i.current_agent != i.agent,
        says="the session belongs to another agent",
    ),
    Rule(
        "other_host",
        RESUME_WITH_REPLAY,
        applies=lambda i: i.other_host is not None,
        says="the session lives on another host",
    ),
    Rule(
        OTHER_PROFILE,
        REFUSE,
        applies=lambda i: bool(i.other_profile),
        says="the session is in another profile of the agent",
        hint="go on there, with PROFILE before the command, or in the agent's `environment` where "
        "the configuration sets it; or begin the prompt with `fresh:`",
    ),
    Rule(
        "no_session",
        RESUME_WITH_REPLAY,
        applies=lambda i: i.current_agent is None,
        says="no session of it is open",
    ),
    Rule(
        "sub_agent_session",
        RESUME_WITH_REPLAY,
        applies=lambda i: i.opens_only_within,
        says="it is a sub-agent's session, which the agent opens only inside its main session",
    ),
    Rule(
        CANNOT_RESUME,
        RESUME_WITH_REPLAY,
        applies=lambda i: i.attaches_none,
        says="the agent can neither resume nor load a session",
    ),
    Rule(
        # The first that looks around: of a session that
        # nothing can open, it does not matter what changed.
        "directory_missing",
        START_FRESH,
        applies=lambda i: i.freshness.is_directory_missing,
        says="the directory the session worked in is gone",
    ),
    Rule(
        "critical_changed",
        START_FRESH,
        applies=lambda i: i.freshness.critical_count > 0,
        says="a critical file the session had read has changed",
        is_about_files=True,
    ),
    Rule(
        "many_changed",
        START_FRESH,
        applies=lambda i: i.freshness.changed_count > i.limits.files_changed_max,
        says="too many of the files the session had read have changed",
        is_about_files=True,
    ),
    Rule(
        # Before the rule that relays, whose condition it shares: it would never be reached.
        "relays_used_up",
        REFUSE,
        applies=lambda i: _is_nearly_full(i) and i.relays >= i.limits.relays_max,
        says="the session is nearly full, and so were the fresh ones before it",
        hint="begin the prompt with `fresh:`, split the work, or raise relays_max",
    ),
    Rule(
        RELAYED,
        START_FRESH,
        applies=_is_nearly_full,
        says="the session's context is nearly full",
    ),
    Rule(
        # Off unless configured, as the next one is: figures of tokens may be estimates (ADR 82).
        "too_big",
        START_FRESH,
        applies=_is_too_big,
        says="the session holds more tokens than resume_tokens_max",
    ),
    Rule(
        "briefing_cheaper",
        START_FRESH,
        applies=_is_briefing_cheaper,
        says="the session's cache is cold, and a briefing is much cheaper",
    ),
    Rule(
        # Replayed and not briefed: the conversation was in the middle of something (ADR 81).
        "cut_off_elsewhere",
        RESUME_WITH_REPLAY,
        applies=lambda i: i.takes_no_session and i.was_interrupted,
        says="the last turn was cut off, and the tool that was called takes no session to go on in",
    ),
    Rule(
        "no_resume_argument",
        START_FRESH,
        applies=lambda i: i.takes_no_session and not i.was_interrupted,
        says="the tool that was called takes no session to go on in",
    ),
    Rule(
        "files_changed",
        RESUME_WITH_UPDATE,
        applies=lambda i: i.freshness.changed_count > 0,
        says="files the session had read have changed",
        is_about_files=True,
    ),
    Rule(
        "configuration_changed",
        RESUME_WITH_UPDATE,
        applies=lambda i: i.freshness.is_configuration_changed,
        says="the role's instructions have changed",
    ),
    Rule(
        "branch_changed",
        RESUME_WITH_UPDATE,
        applies=lambda i: i.freshness.branch is not None,
        says="another branch is checked out",
    ),
    Rule(
        "directory_changed",
        RESUME_WITH_UPDATE,
        applies=lambda i: i.freshness.directory is not None,
        says="the working directory is another one",
    ),
    Rule(
        # Told whatever is decided, for it is about the record and not about the session.
        OLDER_RECORD,
        RESUME,
        applies=lambda i: i.turns_lacking is not None,
        says="the agent's session has turns that this record lacks; they are read back",
        is_always_told=True,
    ),
    Rule(
        NOT_COMPARED,
        RESUME,
        applies=lambda i: bool(i.not_compared),
        says="whether the agent's session has turns that this record lacks cannot be told",
        is_always_told=True,
    ),
    Rule(
        OLDER_SESSION,
        RESUME,
        applies=lambda i: bool(i.turns_gone),
        says="the agent's session lacks turns that this record has; it is told of them",
        is_always_told=True,
    ),
    Rule(
        # Only the agent knows whether its limit has passed, and asking ends nothing.
        "agent_limited",
        RESUME,
        applies=lambda i: i.agent_limit is not None,
        says="the agent said that it is limited; it is asked all the same",
    ),
    Rule(
        "unheard",
        RESUME,
        applies=lambda i: i.was_unheard,
        says="the session did not get the last prompt, and is told of it",
    ),
    Rule(
        "interrupted",
        RESUME,
        applies=lambda i: i.was_interrupted and not i.was_unheard,
        says="the last turn was cut off; the session has what it did",
    ),
    Rule(
        # No update: a rebase changes every commit and perhaps no file (ADR 23).
        "commit_changed",
        RESUME,
        applies=lambda i: i.freshness.commit is not None,
        says="there are other commits, but no file it is known to have read has changed",
    ),
    Rule(
        "agent_changed",
        RESUME,
        applies=lambda i: i.freshness.agent_version is not None or i.freshness.model is not None,
        says="the agent or its model is another version",
    ),
    Rule(
        "git_unknown",
        RESUME,
        applies=lambda i: bool(i.freshness.git_fault),
        says="git could not say which branch and commit this is",
    ),
    Rule(
        "files_unknown",
        RESUME,
        applies=lambda i: i.freshness.are_files_unknown,
        says="the session may have read files whose names are not known",
    ),
    Rule(
        # With the rule before it always applies: `decide` takes the first, and there has to be one.
        "unchanged",
        RESUME,
        applies=lambda i: not i.freshness.are_files_unknown,
        says="nothing has changed since",
    ),
)
"""In order of priority. The docs' table is generated from here."""

DECIDED_FOR = {rule.reason: rule.decision for rule in RULES}
"""What is decided for each reason, for example of a link that was opened for one."""
