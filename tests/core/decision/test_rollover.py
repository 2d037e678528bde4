"""Rollover: every outcome has its row, and only a positive word closes a link."""

import pytest

from upthread.core.decision.rollover import (
    LOST,
    NOT_STARTED,
    POISON_DETECTORS,
    ROLLOVER,
    PoisonSigns,
    Recovery,
    detectors_with,
    is_in_use,
    is_refused_for_good,
    poison,
    recovery_of,
    says_not_started,
)
from upthread.core.types import Outcome


def test_every_outcome_has_one_row():
    assert set(ROLLOVER) == set(Outcome)


@pytest.mark.parametrize("outcome", [Outcome.RATE_LIMITED, Outcome.CREDIT_EXHAUSTED])
def test_a_limit_leaves_the_session_resumable_and_waits(outcome):
    assert ROLLOVER[outcome].keeps_session
    assert ROLLOVER[outcome].recovery is Recovery.WAIT


def test_only_what_rolls_over_or_relays_closes_the_link():
    sends_elsewhere = {Recovery.ROLL_OVER, Recovery.RELAY}
    assert {out for out, row in ROLLOVER.items() if row.recovery in sends_elsewhere} == LOST
    assert Outcome.UNKNOWN not in LOST


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_prompt_that_was_recovered_once_is_never_sent_again_by_itself(outcome):
    sends = {Recovery.ROLL_OVER, Recovery.RELAY, Recovery.RETRY_ONCE}
    assert recovery_of(outcome, may_send=True) is ROLLOVER[outcome].recovery
    assert recovery_of(outcome, may_send=False) not in sends


def test_what_an_agent_that_died_twice_did_is_for_a_person_to_look_at():
    assert recovery_of(Outcome.PROCESS_DIED, may_send=False) is Recovery.PARK
    assert recovery_of(Outcome.TRANSIENT, may_send=False) is Recovery.NONE


def signs(**changes: object) -> PoisonSigns:
    known: dict[str, object] = {
        "was_interrupted": False,
        "prompt_characters": 100,
        "duration_s": 5.0,
        "tokens_in": 5_000,
        "tokens_out": 50,
    }
    return PoisonSigns(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("turn", "detector"),
    [
        (signs(), None),
        (signs(was_interrupted=True, tokens_in=20), "interrupt_replay"),
        (signs(was_interrupted=True, tokens_in=21), None),
        (signs(was_interrupted=True, tokens_in=20, prompt_characters=50), None),
        (signs(was_interrupted=True, tokens_in=None), None),
        (signs(duration_s=0.049, tokens_in=20), "deferred_replay"),
        (signs(duration_s=0.05, tokens_in=20), None),
        (signs(duration_s=0.01, tokens_in=20, tokens_out=0), None),
        (signs(is_reply_empty=True), None),
    ],
)
def test_detectors_fire_at_their_thresholds_and_nowhere_else(turn, detector):
    assert poison(turn) == detector


def test_an_empty_reply_is_poison_only_where_somebody_says_so():
    (empty,) = (row for row in POISON_DETECTORS if row.name == "empty_reply")
    assert not empty.is_on
    silent = signs(is_reply_empty=True)
    assert poison(silent, detectors=detectors_with(empty_reply=True)) == "empty_reply"
    assert poison(silent, detectors=detectors_with(empty_reply=False)) is None


@pytest.mark.parametrize(
    ("before", "now", "is_again"),
    [
        ("invalid identifier ses_12 (500)", "invalid identifier ses_13 (500)", True),
        ("method not found", "method not found", True),
        ("method not found", "invalid params", False),
        ("failed [trace 5031be203c5f] at 08:10", "failed [trace 92ab] at 09:11", True),
        ("getaddrinfo EAI_AGAIN",) * 2 + (False,),
        ("Monthly spend cap reached",) * 2 + (False,),
        ("EACCES, read-only file system",) * 2 + (False,),
        ("session is already open in another process",) * 2 + (False,),
        ("please sign in first",) * 2 + (False,),
        ("ENOSPC: no space left on device",) * 2 + (False,),
        ("failed to read the block of an entry",) * 2 + (True,),
        ("the session is locked for good",) * 2 + (True,),
        ("locked refused session/load for session q-1: the loom is jammed",) * 2 + (True,),
        ("acp:/killed/login refused session/load for session q: jammed",) * 2 + (True,),
        ("this thread is archived and locked",) * 2 + (True,),
        ("the session is locked by another process",) * 2 + (False,),
        # The words of oh-my-pi, fx, Zeroclaw, Prime Agent and editors.
        ("ACP prompt already in progress for this session",) * 2 + (False,),
        ("Agent is already processing. Use steer() or wait for completion.",) * 2 + (False,),
        ('rejected {"reason": "session_busy"}',) * 2 + (False,),
        ("Prompt already in progress",) * 2 + (False,),
        ("Session already has an active prompt turn",) * 2 + (False,),
        ("A turn is already in progress in this session",) * 2 + (False,),
        ("session is currently attached to another client",) * 2 + (False,),
        ("This conversation is being used by another client",) * 2 + (False,),
        ("a previous request is still running",) * 2 + (False,),
        ("the prompt template is broken",) * 2 + (True,),
        ("no turn of this session can be read",) * 2 + (True,),
        ("cannot read /home/tryggve/locked/retry.json",) * 2 + (True,),
    ],
)
def test_a_session_is_refused_for_good_for_the_same_refusal_twice_unless_it_may_pass(
    before, now, is_again
):
    assert is_refused_for_good([before], now) is is_again


@pytest.mark.parametrize(
    "line",
    [
        "bind [127.0.0.1]:8080: Address already in use",
        "flush failed: 429 Too Many Requests",
        "Ripgrep is not available. Falling back to GrepTool.",
    ],
)
def test_what_stands_on_stderr_is_no_part_of_an_answer(line):
    said = "quill refused session/load for session q-1: the spool is bent"
    recorded = f"{said} (its stderr ends with: {line})"
    assert is_refused_for_good([recorded], said)
    assert not is_in_use(recorded)
    assert not is_refused_for_good([f"quill exited (its stderr ends with: {line})"], line)


@pytest.mark.parametrize(
    ("first", "second", "third", "is_given"),
    [
        ("it broke (req_7kTz)", "it broke (req_Qw9b)", "it broke (req_xYpL)", True),
        ("this is broken", "so is that", "this is broken", True),
        ("the connection profile 'lan' is not there",) * 3 + (True,),
        ("the branch limit of this build",) * 3 + (True,),
        ("Claude usage limit reached. Your limit will reset at 3pm (UTC).",) * 3 + (False,),
        ("5-hour limit reached, resets 3pm",) * 3 + (False,),
        ("Billing hold on this seat: settle invoice",) * 3 + (False,),
        ("this seat is unpaid",) * 3 + (False,),
        ("Your plan does not cover this conversation any more",) * 3 + (False,),
        ("Trial ended: subscribe to continue",) * 3 + (False,),
        ("Access token was revoked by your administrator",) * 3 + (False,),
        ("Slow down, you are going too fast",) * 3 + (False,),
        ("Hourly allotment consumed",) * 3 + (False,),
        ("Under maintenance until evening",) * 3 + (False,),
        ("cannot read '/srv/billing/maintenance/a.json'",) * 3 + (True,),
        ("monthly spending cap reached",) * 3 + (False,),
        ("The service is temporarily unavailable, please try again",) * 3 + (False,),
        ("connect ECONNREFUSED", "fetch failed", "connect ECONNREFUSED", False),
        ("session is already open in another process",) * 3 + (False,),
        ("the lockfile format v9 is not understood",) * 3 + (True,),
        ("the host is stopping: nothing is opened",) * 3 + (False,),
        ("terminating on SIGTERM",) * 3 + (False,),
        ("exec: Terminated",) * 3 + (False,),
        ("the worker was killed by the system",) * 3 + (False,),
        ("string is not terminated in weft.json",) * 3 + (True,),
        ("the thread of the killed job cannot be read",) * 3 + (True,),
        ("mine was ended by signal 15 during session/load",) * 3 + (False,),
        ("mine was ended by signal 11 during session/load",) * 3 + (True,),
        ("the session is locked (read-only)",) * 3 + (True,),
        ("insufficient_quota: You exceeded your current quota",) * 3 + (False,),
        ("Too Many Requests",) * 3 + (False,),
        ("Your session has expired. Please log in again.",) * 3 + (False,),
        ("You have reached the weekly limit of your plan. It resets at 15:00 UTC.",) * 3 + (False,),
        ("You are out of credits. Add funds to go on.",) * 3 + (False,),
        ("API key revoked by its owner",) * 3 + (False,),
        ("Internal error: API Error: 402 Guthaben aufgebraucht",) * 3 + (False,),
        ("unexpected status 403 Forbidden: Konto gesperrt",) * 3 + (False,),
        ("unexpected status 400 Bad Request: Konto",) * 3 + (True,),
        ("You've hit your limit: resets 3pm",) * 3 + (False,),
        ("the file credit-limits/overload.md is not there",) * 3 + (True,),
        ("Please run /login to continue.",) * 3 + (False,),
        ("cannot read '/login/a.json'",) * 3 + (True,),
        ("You have used up your monthly budget for this seat.",) * 3 + (False,),
        ("Budget exceeded.",) * 3 + (False,),
        ("We are experiencing high demand right now.",) * 3 + (False,),
        ("Your organization has disabled access for this user.",) * 3 + (False,),
        ("Your token is no longer valid.",) * 3 + (False,),
        ("the table of tokens is torn",) * 3 + (True,),
    ],
)
def test_a_session_is_refused_for_good_at_the_third_refusal_also_in_other_words(
    first, second, third, is_given
):
    assert is_refused_for_good([second, first], third) is is_given


@pytest.mark.parametrize(
    "other",
    [
        "Session is open in another window",
        "Too Many Requests",
        "worker terminated by SIGTERM",
        "mine was ended by signal 15 during session/load",
        "Please log in again",
    ],
)
def test_a_refusal_that_is_not_the_sessions_does_not_count_among_those_in_a_row(other):
    assert not is_refused_for_good([other] * 3, "the loom is jammed")
    assert not is_refused_for_good([other, "the loom is jammed", other], "no thread is left")
    assert is_refused_for_good([other, "the loom is jammed"], "the loom is jammed")


def test_a_provider_that_names_each_request_refuses_in_the_same_words():
    first, second = (
        f"unexpected status 422 Unprocessable Entity: this talk is with the auditors, cf-ray:"
        f" {ray}, request id: {request} (httpConnectionFailed, HTTP 422)"
        for ray, request in [("aa44c86c-FRA", "req_e57f1Zq"), ("bb51d00e-LHR", "req_0xYpL9k")]
    )
    assert is_refused_for_good([first], second)


@pytest.mark.parametrize(
    ("words", "is_not_started"),
    [
        ("the command 'codex' was not found on PATH outside of the working tree", True),
        ("gemini refused initialize: initialize first", True),
        ("opencode exited with code 1 before it listened", True),
        (f"{NOT_STARTED}: /a/constructor.md: its name is JavaScript's own", True),
        ("gemini refused session/load for session s1: call initialize first", False),
        ("the agent said: the command line is not understood", False),
    ],
)
def test_an_agent_that_did_not_start_has_said_nothing_of_a_session(words, is_not_started):
    assert says_not_started(words) is is_not_started


def test_a_session_that_is_not_opened_in_time_is_given_up_at_the_third_time():
    words = "the agent did not answer session/load within 30 s"
    assert not is_refused_for_good([words], words, is_slow=True)
    assert is_refused_for_good([words, words], words, is_slow=True)


@pytest.mark.parametrize(
    "words", ["the author record is malformed", "a 'busybox'", "no lockfile", "workspace 1"]
)
def test_a_part_of_a_name_is_no_passing_fault(words):
    assert is_refused_for_good([words], words)
