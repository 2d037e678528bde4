"""Random histories, valid ones and damaged ones, from a seed: quick enough for a million."""

import random
from collections.abc import Iterable

from msgspec.structs import replace

from upthread.core import types
from upthread.core.history.model import History, HistoryMessage

WORDS = ("plan", "done", "ok ", " run\n", "é", "日本", "\x00", "\ud83d", "<x>", "a" * 60, "end.")
ARGUMENTS = (
    *(None, {}, {"path": "a.py"}, [1, 2], "text"),
    *({"n": float("nan")}, {"x\udc00": ["\ud800"]}),
)
TITLES = ("read", "git push --force", "", "ünïcode", "x" * 90)


def message(speaker: str, *parts: types.Part) -> HistoryMessage:
    return HistoryMessage(speaker=types.Speaker(speaker), parts=parts, place="somewhere")


def history(*messages: HistoryMessage) -> History:
    numbered = enumerate(messages, start=1)
    return tuple(replace(each, place=f"message {number}") for number, each in numbered)


def text(words: str) -> types.TextPart:
    return types.TextPart(text=words)


def call(call_id: str, title: str = "read", arguments: object = None) -> types.ToolCallPart:
    return types.ToolCallPart(call_id=call_id, title=title, tool_kind="other", arguments=arguments)


def result(call_id: str, words: str = "ok", status: str = "completed") -> types.ToolResultPart:
    return types.ToolResultPart(call_id=call_id, status=status, text=words)


class Histories:
    """Makes histories from a seed. Texts are numbered, so that none is like another."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0

    def valid(self) -> list[HistoryMessage]:
        """A history as an agent would store it: turns of texts, and of calls with results."""
        messages: list[HistoryMessage] = []
        for _ in range(self._random.randint(1, 4)):
            messages.append(message("user", *self._context(), self._text()))
            for _ in range(self._random.randint(0, 3)):
                calls = [self._call() for _ in range(self._random.randint(1, 3))]
                messages.append(message("assistant", *self._thought(), *calls))
                messages.append(message("tool", *(self._result(each) for each in calls)))
            messages.append(message("assistant", *self._thought(), self._text()))
        return messages

    def damaged(self) -> History:
        """A valid one, cut anywhere, with parts removed, doubled, moved, put elsewhere."""
        messages = self.valid()
        for _ in range(self._random.randint(0, 4)):
            messages = self._random.choice(self._DAMAGES)(self, messages)
        return tuple(messages)

    def _cut(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        at = self._random.randint(0, len(messages))
        return messages[at:] if self._random.random() < 0.3 else messages[:at]

    def _cut_in_a_message(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        if not messages:
            return messages
        at = self._random.randrange(len(messages))
        parts = messages[at].parts[: self._random.randint(0, len(messages[at].parts))]
        return [*messages[:at], message(messages[at].speaker, *parts)]

    def _remove(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        return self._with_parts(messages, lambda parts, at: parts[:at] + parts[at + 1 :])

    def _double(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        return self._with_parts(messages, lambda parts, at: parts[: at + 1] + parts[at:])

    def _shuffle(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        return self._with_parts(messages, lambda parts, _: self._random.sample(parts, k=len(parts)))

    def _swap(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        swapped = list(messages)
        if len(swapped) > 1:
            one, other = self._random.sample(range(len(swapped)), k=2)
            swapped[one], swapped[other] = swapped[other], swapped[one]
        return swapped

    def _double_message(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        at = self._random.randint(0, len(messages))
        return [*messages[:at], *messages[at : at + 1], *messages[at:]]

    def _other_speaker(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        if not messages:
            return messages
        at = self._random.randrange(len(messages))
        speaker = self._random.choice(list(types.Speaker))
        return [*messages[:at], message(speaker, *messages[at].parts), *messages[at + 1 :]]

    def _add(self, messages: list[HistoryMessage]) -> list[HistoryMessage]:
        added = self._random.choice(
            [
                result("nobody"),
                call("c1", "write", {"x": 1}),
                text(" \n"),
                types.UnknownPart(kind="plan", raw=None),
                types.ErasedPart(kind="text"),
                types.FilePart(uri="file:///x.png", mime_type="image/png"),
                types.ReasoningPart(text="hm"),
            ]
        )
        return self._with_parts(messages, lambda parts, at: [*parts[:at], added, *parts[at:]])

    def _with_parts(self, messages: list[HistoryMessage], change) -> list[HistoryMessage]:
        if not messages:
            return messages
        at = self._random.randrange(len(messages))
        parts = list(messages[at].parts)
        parts = change(parts, self._random.randint(0, len(parts)))
        return [*messages[:at], message(messages[at].speaker, *parts), *messages[at + 1 :]]

    _DAMAGES = (
        *(_cut, _cut_in_a_message, _remove, _double, _shuffle, _swap),
        *(_double_message, _other_speaker, _add),
    )

    def _text(self) -> types.TextPart:
        self._number += 1
        return text(f"{self._number}:{''.join(self._random.choices(WORDS, k=2))}")

    def _context(self) -> Iterable[types.Part]:
        return [types.ContextPart(text="[prior]")] if self._random.random() < 0.2 else []

    def _thought(self) -> Iterable[types.Part]:
        return [types.ReasoningPart(text="I think")] if self._random.random() < 0.3 else []

    def _call(self) -> types.ToolCallPart:
        self._number += 1
        call_id = "" if self._random.random() < 0.02 else f"c{self._number}"
        if self._random.random() < 0.1:
            call_id = f"call:{self._number}/é"
        return call(call_id, self._random.choice(TITLES), self._random.choice(ARGUMENTS))

    def _result(self, made: types.ToolCallPart) -> types.ToolResultPart:
        words = self._random.choice(["", "out", "a\ud800b"])
        return result(made.call_id, words, self._random.choice(["completed", "failed", "unknown"]))
