"""The script that travels in a prompt, so that any agent and any of its children can be driven.

    [[CALL tool {"json": "arguments"}]]            a tool call
    [[SAY text]]                                   a reply; [[SAY]] is an empty one
    [[FAIL status retry-after=seconds message]]    an HTTP error; both last parts may be missing
    [[HANG]]                                       no answer at all
    [[SLEEP seconds]] [[PACE seconds]] [[THINK text]]   for the step that follows: wait before it,
                                                   pause before each streamed frame, reason first
    [[USAGE tokens]]                               the same: the provider says it has read so many
    [[CACHED tokens]]                              the same: so many of them came from its cache
    [[TELL text]]                                  the same: said before the call, in one reply

Several steps in order are several model calls of one turn. A failing step at the end repeats, one
before others is passed after one failure, so that a client's retry can succeed. `[[FAIL 400
context length]]` takes the provider's words for a prompt that is too long.

Only the end of a message is a script: markers followed by another paragraph are somebody's words
about a script, as are quoted lines (`> …`) and anything inside a `<block>`. So a briefing or a
replay that tells of an earlier prompt does not run it again.
"""

import json
import re

from msgspec import Struct
from msgspec.structs import replace

from upthread.core.context.briefing import CLOSING, JUDGE, TITLE
from upthread.testing.rehearsal_model.protocol import (
    Answer,
    Conversation,
    Failure,
    JsonObject,
    JsonValue,
    Reply,
    Silence,
    ToolCall,
    as_object,
)

CONTEXT_WORDS = "context length"
FAILS_AS_TOLD = "The rehearsal model fails as it was told to."

_MARKER = re.compile(
    r"\[\[(?P<word>CALL|SAY|FAIL|HANG|SLEEP|PACE|THINK|USAGE|CACHED|TELL)(?=[\s\]])\s*"
)
_BLOCK = re.compile(
    r"^<(?P<tag>[a-z][\w-]*)\b[^>]*>.*?</(?P=tag)\b[^>]*>"
    rf"|^{TITLE}\n.*^(?:{CLOSING}|{JUDGE})$",
    re.DOTALL | re.MULTILINE,
)
"""What only tells of a script: a quoted block, and a briefing, whose focus is the prompt itself."""
_QUOTED = re.compile(r"^>.*$", re.MULTILINE)
_FAILURE = re.compile(
    r"(?P<status>\d{3})\s*(?:retry-after=(?P<seconds>[\d.]+)\s*)?(?P<message>.*)", re.DOTALL
)
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")


class ScriptError(ValueError):
    """A script cannot be read; the text says which marker."""


class _Marker(Struct, frozen=True):
    word: str
    body: str
    arguments: JsonObject
    start: int
    end: int


def script_of(conversation: Conversation) -> tuple[Answer, ...]:
    """Return the steps of the last user message that is a script's; empty without one."""
    texts = conversation.user_texts
    return parse_script(texts[-1]) if texts else ()


def parse_script(text: str) -> tuple[Answer, ...]:
    """Return the steps at the end of a text. Raises ScriptError for a marker without sense."""
    told = _QUOTED.sub("", _BLOCK.sub("", text))
    return _answers(_last_group(told, _markers(told)))


def step_for(script: tuple[Answer, ...], *, done: int) -> Answer | None:
    """Return the step after `done` others, None when the script is over."""
    if done < len(script):
        return script[done]
    last = script[-1] if script else None
    return last if isinstance(last, Failure | Silence) else None


def _markers(text: str) -> list[_Marker]:
    found: list[_Marker] = []
    position = 0
    while (match := _MARKER.search(text, position)) is not None:
        marker = _read_call(text, match) if match["word"] == "CALL" else _read_plain(text, match)
        position = match.end() if marker is None else marker.end
        if marker is not None:
            found.append(marker)
    return found


def _read_plain(text: str, match: re.Match[str]) -> _Marker | None:
    end = text.find("]]", match.end())
    if end < 0:
        return None
    body = text[match.end() : end]
    return _Marker(match["word"], body, {}, match.start(), end + 2)


def _read_call(text: str, match: re.Match[str]) -> _Marker | None:
    """JSON may hold `]]` and further scripts for children: its own end counts, not the text's."""
    if "]]" not in text[match.end() :]:
        return None
    name = re.compile(r"(\S+)\s*").match(text, match.end())
    if name is None:
        raise ScriptError("[[CALL]] names no tool")
    arguments, end = _decode(text, name.end(), name[1])
    closing = re.compile(r"\s*\]\]").match(text, end)
    if closing is None:
        raise ScriptError(f"[[CALL {name[1]} …: no ]] after the arguments")
    return _Marker("CALL", name[1], arguments, match.start(), closing.end())


def _decode(text: str, position: int, tool: str) -> tuple[JsonObject, int]:
    try:
        value, end = json.JSONDecoder().raw_decode(text, position)
    except ValueError as error:
        raise ScriptError(f"[[CALL {tool} …: the arguments are no JSON: {error}") from error
    loaded: JsonValue = value
    return as_object(loaded), end


def _last_group(text: str, markers: list[_Marker]) -> list[_Marker]:
    """Return the markers that no paragraph of other words separates from the end."""
    group: list[_Marker] = []
    end = len(text.rstrip())
    for marker in reversed(markers):
        gap = text[marker.end : end]
        if gap.strip() and _PARAGRAPH_END.search(gap):
            break
        group.insert(0, marker)
        end = marker.start
    return group


def _answers(markers: list[_Marker]) -> tuple[Answer, ...]:
    answers: list[Answer] = []
    coming = Reply()
    for marker in markers:
        match marker.word:
            case "SLEEP":
                coming = replace(coming, delay_s=_number(marker, "seconds"))
            case "PACE":
                coming = replace(coming, pace_s=_number(marker, "seconds"))
            case "TELL":
                coming = replace(coming, text=marker.body)
            case "USAGE":
                coming = replace(coming, tokens_in=int(_number(marker, "tokens")))
            case "CACHED":
                coming = replace(coming, tokens_cached=int(_number(marker, "tokens")))
            case "THINK":
                coming = replace(coming, thinking=marker.body)
            case _:
                answers.append(_step(marker, coming))
                coming = Reply()
    return tuple(answers)


def _step(marker: _Marker, coming: Reply) -> Answer:
    match marker.word:
        case "CALL":
            call = ToolCall(name=marker.body, arguments=marker.arguments)
            return replace(coming, calls=(call,))
        case "FAIL":
            return replace(_failure(marker), delay_s=coming.delay_s)
        case "HANG":
            return Silence()
        case _:
            return replace(coming, text=marker.body)


def _failure(marker: _Marker) -> Failure:
    match = _FAILURE.fullmatch(marker.body.strip())
    if match is None:
        raise ScriptError(f"[[FAIL {marker.body}]] names no three-digit status")
    seconds, message = match["seconds"], match["message"].strip()
    return Failure(
        status=int(match["status"]),
        message=message or FAILS_AS_TOLD,
        retry_after_s=None if seconds is None else float(seconds),
        is_context_full=message.lower().startswith(CONTEXT_WORDS),
    )


def _number(marker: _Marker, of: str) -> float:
    try:
        return float(marker.body)
    except ValueError as error:
        raise ScriptError(f"[[{marker.word} {marker.body}]]: not a number of {of}") from error
