"""The agent's side of ACP: what each method does with the sessions, and the directives of a prompt.

Agent Client Protocol, version 1 (agentclientprotocol.com, schema 1.19.0 seen). A session is known
while its file is there; it is *attached* once this process has made, loaded, resumed or forked it.
Prompting a session that is known but not attached is a fault of the client and told as such, apart
from `unknown session`.

A directive tells the rehearsal what to do or to fail at, word for word:
`[[rehearse: WORD arguments]]`, anywhere in a prompt, carried out in order. All are read before the
first is carried out, so a misspelt one does nothing. A directive on a quoted line (`> `) is
somebody telling what was said earlier, and is left alone. Two guards may stand before the word:
`once` (not when an earlier prompt of this session has the same directive) and `if_resumed` (not in
the first prompt of a session); they let a prompt be sent again and succeed. One table maps each
word to what it does; docs/rehearsal.md explains the same words.
"""

import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

from upthread.agents.rehearsal.history import replay
from upthread.agents.rehearsal.protocol import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_FOUND,
    Json,
    Request,
    RpcError,
    Work,
)
from upthread.agents.rehearsal.roles import BROKEN_BLOCK, ROLES, block_of, play, prose_of
from upthread.agents.rehearsal.sessions import NAMELESS, OPAQUE_ERRORS, UnknownSessionError, size_of
from upthread.agents.rehearsal.turn import (
    Agent,
    ToolCall,
    Turn,
    TurnCancelledError,
    TurnStopped,
    read_file,
    run_command,
    text_chunk,
    write_file,
)

BIG_BYTES_MAX = 64 * 1024 * 1024
CHUNKS_MAX = 10_000
WAIT_MS_MAX = 600_000
LATE_S = 0.05
CRASH_EXIT_CODE = 3

NO_REPORT = "no_report"
BAD_REPORT = "bad_report"
REPORT_WORDS = frozenset({NO_REPORT, BAD_REPORT})
"""These change how the turn's report is given; the role is played all the same."""

_UNKNOWN = {"sessionUpdate": "rehearsal_unknown", "note": "a kind no client knows"}
_LATER = '<task id="ses_later" state="running">{} goes on</task>'
_DIRECTIVE = re.compile(r"\[\[rehearse:(.*?)\]\]", re.DOTALL)
_GUARDS = ("once", "if_resumed")


class Directive(NamedTuple):
    """One directive of a prompt, its guards taken off."""

    word: str
    arguments: str


Action: TypeAlias = Callable[[Turn, str], None]


def directives_of(turn: Turn) -> list[Directive]:
    """Return what the prompt asks for, without what a guard holds back.

    Raises RpcError for a word that does not exist.
    """
    earlier = turn.history.prompts[:-1]
    found: list[Directive] = []
    for written in [*_written(turn.text), *_written(turn.agent.settings.always)]:
        guards, directive = _parsed(written)
        if directive.word not in ACTIONS and directive.word not in REPORT_WORDS:
            known = ", ".join(sorted([*ACTIONS, *REPORT_WORDS]))
            raise RpcError(INVALID_PARAMS, f"no directive {directive.word!r}; there are: {known}")
        was_given = any(written in _written(prompt) for prompt in earlier)
        if ("once" in guards and was_given) or ("if_resumed" in guards and not earlier):
            continue
        found.append(directive)
    return found


def carry_out(turn: Turn, directive: Directive) -> None:
    """Do it; RpcError with the right usage where its arguments cannot be read."""
    turn.stop_if_cancelled()
    try:
        ACTIONS[directive.word](turn, directive.arguments)
    except _UsageError as error:
        usage = f"[[rehearse: {directive.word} {error}]]"
        raise RpcError(
            INVALID_PARAMS, f"{directive.arguments!r} cannot be read; write {usage}"
        ) from error


class _UsageError(ValueError):
    """The arguments of a directive are not what it takes; the text is what it takes."""


def _written(prompt: str) -> list[str]:
    """Return the inside of each directive that is not on a quoted line."""
    return [
        match[1].strip()
        for match in _DIRECTIVE.finditer(prompt)
        if not prompt[prompt.rfind("\n", 0, match.start()) + 1 :].lstrip().startswith(">")
    ]


def _parsed(written: str) -> tuple[set[str], Directive]:
    guards: set[str] = set()
    word, arguments = _split(written)
    while word in _GUARDS:
        guards.add(word)
        word, arguments = _split(arguments)
    return guards, Directive(word, arguments)


def _split(text: str) -> tuple[str, str]:
    word, *rest = text.split(maxsplit=1)[:2] or [""]
    return word, rest[0] if rest else ""


def _numbers(arguments: str, *, usage: str, maxima: tuple[int, ...]) -> list[int]:
    words = arguments.split()
    if len(words) != len(maxima) or not all(word.isdecimal() for word in words):
        raise _UsageError(usage)
    numbers = [int(word) for word in words]
    if any(number > most for number, most in zip(numbers, maxima, strict=True)):
        raise _UsageError(f"{usage}, at most {' '.join(str(most) for most in maxima)}")
    return numbers


def _given(arguments: str, usage: str) -> str:
    if not arguments:
        raise _UsageError(usage)
    return arguments


# --- doing -------------------------------------------------------------------------------------


def _read(turn: Turn, arguments: str) -> None:
    read_file(turn, _given(arguments, "PATH"))


def _write(turn: Turn, arguments: str, **crash: Callable[[], None]) -> None:
    path, text = _split(_given(arguments, "PATH TEXT"))
    write_file(turn, path, text, **crash)


def _announce(turn: Turn, arguments: str) -> None:
    raw_input = {"command": _given(arguments, "COMMAND")}
    turn.begin_call(f"Run {arguments}", kind="execute", raw_input=raw_input).ask_and_begin()


def _execute(turn: Turn, arguments: str) -> None:
    arguments = _given(arguments, "COMMAND")
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise _UsageError("COMMAND with balanced quotes") from error
    run_command(turn, words)


def _plan(turn: Turn, arguments: str) -> None:
    entries = [
        {"content": content.strip(), "priority": "medium", "status": "pending"}
        for content in arguments.split("|")
    ]
    turn.tell({"sessionUpdate": "plan", "entries": entries})


def _usage(turn: Turn, arguments: str) -> None:
    used, size = _numbers(arguments, usage="USED SIZE", maxima=(10**12, 10**12))
    update = {"sessionUpdate": "usage_update", "used": used, "size": size}
    turn.send(update, session_id=turn.session_id)


def _tokens(turn: Turn, arguments: str) -> None:
    read, wrote = _numbers(arguments, usage="IN OUT", maxima=(10**12, 10**12))
    turn.usage = {"inputTokens": read, "outputTokens": wrote, "totalTokens": read + wrote}


def _child(turn: Turn, arguments: str, said: str = "{} is done") -> None:
    call, child, role = _called_child(turn, arguments)
    text = said.format(role)
    call.end("completed", text=text, raw_output={"childSessionId": child, "output": text})


def _child_hang(turn: Turn, arguments: str) -> None:
    _called_child(turn, arguments)
    turn.wait(None)


def _called_child(turn: Turn, arguments: str) -> tuple[ToolCall, str, str]:
    """Call a sub-agent and let it speak; return the call, which goes on, its session and role."""
    role, text = _split(arguments)
    if not role:
        raise _UsageError("ROLE TEXT")
    child = f"{turn.session_id}:subagent:{turn.children_called + 1}"
    turn.children_called += 1
    raw_input = {"role": role, "prompt": text, "childSessionId": child}
    call = turn.begin_call(f"Ask {role}", kind="other", raw_input=raw_input)
    call.begin()
    turn.send(text_chunk(f"I am {role}. I was asked: {text}"), session_id=child)
    return call, child, role


def _child_says(turn: Turn, arguments: str) -> None:
    number, text = _split(arguments)
    if not number.isdecimal():
        raise _UsageError("N TEXT")
    turn.send(text_chunk(text), session_id=f"{turn.session_id}:subagent:{number}")


def _slow(turn: Turn, arguments: str) -> None:
    count, wait_ms = _numbers(arguments, usage="N MS", maxima=(CHUNKS_MAX, WAIT_MS_MAX))
    for number in range(1, count + 1):
        turn.say(f"chunk {number} of {count}\n")
        turn.wait(wait_ms / 1000)


# --- ending ------------------------------------------------------------------------------------


def _stop(_turn: Turn, arguments: str) -> NoReturn:
    raise TurnStopped(_given(arguments, "REASON"))


def _rate_limit(_turn: Turn, arguments: str) -> NoReturn:
    data: dict[str, object] = {"errorKind": "rate_limit"}
    if arguments:
        (seconds,) = _numbers(arguments, usage="[SECONDS]", maxima=(10**9,))
        data["retryAfterSeconds"] = seconds
    raise RpcError(INTERNAL_ERROR, "You've hit your rate limit", data)


def _fail(_turn: Turn, arguments: str) -> NoReturn:
    raise RpcError(INTERNAL_ERROR, _given(arguments, "MESSAGE"))


def _fail_as(_turn: Turn, arguments: str) -> NoReturn:
    kind, _, message = arguments.partition(" ")
    if not message:
        raise _UsageError("KIND MESSAGE")
    raise RpcError(INTERNAL_ERROR, message, {"errorKind": kind})


def _auth(_turn: Turn, _arguments: str) -> NoReturn:
    raise RpcError(AUTH_REQUIRED, "Authentication required")


def _lose_session(turn: Turn, _arguments: str) -> NoReturn:
    turn.agent.store.delete(turn.session_id)
    raise UnknownSessionError(turn.session_id)


def _crash() -> NoReturn:
    # As a kill would: nothing is answered, written or tidied up.
    os._exit(CRASH_EXIT_CODE)


# --- breaking the protocol ---------------------------------------------------------------------


def _late(turn: Turn, arguments: str) -> None:
    def send_late() -> None:
        time.sleep(LATE_S)
        turn.send(text_chunk(arguments), session_id=turn.session_id)

    turn.afterwards.append(send_late)


ACTIONS: dict[str, Action] = {
    "say": Turn.say,
    "think": Turn.think,
    "read": _read,
    "write": _write,
    "execute": _execute,
    "announce": _announce,
    "plan": _plan,
    "usage": _usage,
    "tokens": _tokens,
    "child": _child,
    "child_hang": _child_hang,
    "background": lambda turn, text: _child(turn, text, _LATER),
    "child_says": _child_says,
    "slow": _slow,
    "big": lambda turn, text: turn.say("x" * _numbers(text, usage="N", maxima=(BIG_BYTES_MAX,))[0]),
    "surrogate": lambda turn, _: turn.say("half a pair \ud83d, a NUL \x00, and the end"),
    "stop": _stop,
    "empty": lambda turn, _: _stop(turn, "end_turn"),
    "hang": lambda turn, _: turn.wait(None),
    "rate_limit": _rate_limit,
    "fail": _fail,
    "fail_as": _fail_as,
    "auth": _auth,
    "lose_session": _lose_session,
    "crash": lambda _turn, _text: _crash(),
    "crash_in_tool": lambda turn, text: _write(turn, text, after=_crash),
    "crash_before_tool": lambda turn, text: _write(turn, text, before=_crash),
    "garbage": lambda turn, _: turn.agent.connection.write_line(b"this line is not JSON"),
    "unstamped": lambda turn, text: turn.send(text_chunk(text), session_id=None),
    "unknown": lambda turn, _: turn.send(_UNKNOWN, session_id=turn.session_id),
    "late": _late,
}


# --- the methods ----------------------------------------------------------------------------------


PROTOCOL_VERSION = 1
VERSION = "0.1.0"
POLL_S = 0.01
REMEMBERED_CHARACTERS = 40


class Methods:
    """The methods of one connection. Which sessions are attached is all it knows by itself."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._settings = agent.settings
        self._attached: dict[str, str] = {}
        self._running: dict[str, Turn] = {}
        self._lock = threading.Lock()

    def requests(self) -> Mapping[str, Request]:
        """Return the methods that are answered; those switched off are not there at all."""
        optional: dict[str, Request] = {
            "load": self._load,
            "resume": self._resume,
            "list": self._list,
            "fork": self._fork,
        }
        methods: dict[str, Request] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
        }
        methods |= {f"session/{name}": call for name, call in optional.items() if self._can(name)}
        return {name: self._told_of_unknown(method) for name, method in methods.items()}

    def end_turns(self, within_s: float) -> None:
        """Wait until no turn is running any more, at most that long."""
        until_s = time.monotonic() + within_s
        while self._running and time.monotonic() < until_s:
            time.sleep(POLL_S)

    def _can(self, name: str) -> bool:
        return f"no_{name}" not in self._settings.words

    def _initialize(self, _params: Json) -> Json:
        session: Json = {name: {} for name in ("resume", "list", "fork") if self._can(name)}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "rehearsal", "title": "Rehearsal", "version": VERSION},
            "agentCapabilities": {
                "loadSession": self._can("load"),
                "sessionCapabilities": session,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
            },
            "authMethods": [],
        }

    def _new(self, params: Json) -> Json:
        cwd = _text(params, "cwd")
        return self._made(self._agent.store.create(cwd), cwd=cwd, event="session_new")

    def _fork(self, params: Json) -> Json:
        origin, cwd = _text(params, "sessionId"), _text(params, "cwd")
        session_id = self._agent.store.create(cwd, forked_from=origin)
        return self._made(session_id, cwd=cwd, event="session_fork")

    def _made(self, session_id: str, *, cwd: str, event: str) -> Json:
        self._attached[session_id] = cwd
        self._agent.log.write(event, session_id=session_id, role="")
        return {"sessionId": session_id}

    def _load(self, params: Json) -> Json:
        session_id, entries = self._attach(params, event="session_load")
        # All of it before the answer, as ACP has it.
        names_messages = NAMELESS not in self._settings.words
        for update in replay(entries, names_messages=names_messages):
            self._agent.connection.notify(
                "session/update", {"sessionId": session_id, "update": update}
            )
        return {}

    def _resume(self, params: Json) -> Json:
        self._attach(params, event="session_resume")
        return {}

    def _attach(self, params: Json, *, event: str) -> tuple[str, list[Json]]:
        session_id, cwd = _text(params, "sessionId"), _text(params, "cwd")
        entries = self._agent.store.read(session_id)
        self._attached[session_id] = cwd
        self._agent.log.write(event, session_id=session_id, role="")
        return session_id, entries

    def _list(self, params: Json) -> Json:
        return {"sessions": list(self._agent.store.listed(params.get("cwd")))}

    def cancel(self, params: Json) -> None:
        """Have a session's turn end as cancelled; nothing is answered."""
        with self._lock:
            turn = self._running.get(str(params.get("sessionId")))
        if turn is not None:
            turn.log("cancel")
            turn.cancelled.set()

    def _prompt(self, params: Json) -> Work:
        """Begin a turn; the prompt is in the session's file before the thread starts."""
        session_id = _text(params, "sessionId")
        with self._lock:
            if session_id in self._running:
                raise RpcError(INVALID_REQUEST, f"a prompt is already running in {session_id}")
            turn = Turn(
                self._agent,
                session_id=session_id,
                cwd=self._cwd_of(session_id),
                text=_prompt_text(params),
            )
            self._running[session_id] = turn

        def afterwards() -> None:
            for call in turn.afterwards:
                call()

        return Work(lambda: self._run(turn), afterwards)

    def _cwd_of(self, session_id: str) -> str:
        if session_id not in self._attached:
            self._agent.store.read(session_id)
            raise RpcError(
                INVALID_PARAMS,
                f"{session_id} is not attached here: call session/load or session/resume first",
            )
        return self._attached[session_id]

    def _run(self, turn: Turn) -> Json:
        try:
            stop_reason = _carried_out(turn)
        except UnknownSessionError as error:
            self._attached.pop(turn.session_id, None)
            raise self._unknown(error) from error
        finally:
            with self._lock:
                del self._running[turn.session_id]
        turn.log("reply", bytes=size_of(turn.said), text=turn.said, stop_reason=stop_reason)
        usage: Json = {} if turn.usage is None else {"usage": turn.usage}
        return {"stopReason": stop_reason, **usage}

    def _told_of_unknown(self, method: Request) -> Request:
        def call(params: Json) -> Json | Work:
            try:
                return method(params)
            except UnknownSessionError as error:
                raise self._unknown(error) from error

        return call

    def _unknown(self, error: UnknownSessionError) -> RpcError:
        if OPAQUE_ERRORS in self._settings.words:
            return RpcError(INTERNAL_ERROR, "Internal error")
        return RpcError(NOT_FOUND, "Resource not found", {"sessionId": error.session_id})


def _carried_out(turn: Turn) -> str:
    """Do what the prompt asks, write how the turn ended, and return its stop reason."""
    try:
        _respond(turn)
        stop_reason = "end_turn"
    except TurnStopped as stopped:
        stop_reason = stopped.stop_reason
    except TurnCancelledError:
        stop_reason = "cancelled"
    except RpcError as error:
        turn.end(error=error.as_json())
        turn.log("failed", error=error.as_json())
        raise
    turn.end(stopReason=stop_reason)
    return stop_reason


# --- a prompt: its directives first, else its role, else free talk -----------------------------


def _respond(turn: Turn) -> None:
    """Do all there is to do in a turn. Returning is the end of the turn, with `end_turn`."""
    directives = directives_of(turn)
    report_words = {one.word for one in directives} & REPORT_WORDS
    actions = [one for one in directives if one.word not in REPORT_WORDS]
    for directive in actions:
        carry_out(turn, directive)
    if actions:
        return
    if turn.role in ROLES:
        _play_role(turn, report_words=report_words)
        return
    turn.say(_free_talk(turn))
    if BAD_REPORT in report_words:
        turn.say(f"\n\n{BROKEN_BLOCK}")


def _play_role(turn: Turn, *, report_words: set[str]) -> None:
    report = play(turn)
    turn.say(prose_of(report))
    if NO_REPORT in report_words:
        return
    turn.say(f"\n\n{BROKEN_BLOCK if BAD_REPORT in report_words else block_of(report)}")


def _free_talk(turn: Turn) -> str:
    """Say what this session holds, so that a reader can count what was lost."""
    earlier = turn.history.prompts[:-1]
    heads = "; ".join(f'"{" ".join(prompt.split())[:REMEMBERED_CHARACTERS]}"' for prompt in earlier)
    told = f": {heads}" if heads else ""
    return f"I remember {len(earlier)} earlier prompts{told} (rehearsal)"


# --- what a request holds ----------------------------------------------------------------------


def _text(params: Json, name: str) -> str:
    value: Any = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"`{name}` is missing or no text")
    return value


def _prompt_text(params: Json) -> str:
    """Return the text of all blocks of a prompt, embedded files included."""
    blocks: object = params.get("prompt")
    if not isinstance(blocks, list):
        raise RpcError(INVALID_PARAMS, "`prompt` is missing or no list")
    held = (_member(block, "resource") or block for block in cast("list[object]", blocks))
    texts = (_member(block, "text") for block in held)
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _member(value: object, name: str) -> object:
    return cast("Json", value).get(name) if isinstance(value, dict) else None
