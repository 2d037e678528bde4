"""Input: what people hand in, as texts, and what they answer at the terminal.

They are asked only where somebody is there to answer (a permission an agent wants, a change
upthread would make): both streams are terminals and nobody asked for JSON.

Who calls: a person types; standard input is their terminal, and we are what they run in it. Agents
give the shells they open variables of their own; where one is found, here or in a process above
this one, a model is acting, terminal or not. A program that takes pains to look like a person, and
leaves its agent's processes behind, cannot be told from one: it has the person's rights.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import anyio
from msgspec import Struct, field

from upthread.agents.base import NOBODY, PermissionAnswer, PermissionRequest
from upthread.boundary import files
from upthread.boundary.git.places import untrusted_around
from upthread.boundary.programs import environments_above
from upthread.core.agents import PERSON as A_PERSON
from upthread.core.agents import PROGRAM, Actor, model_of
from upthread.errors import UsageError
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import one_line

Choices: TypeAlias = dict[str, tuple[str, str]]
"""By what a person types, the kind of an answer and the id of its option."""

PERSON = "the person at the terminal"
LOCATIONS_SHOWN_MAX = 5
ANSWER_CHARACTERS_MAX = 200

DECLINED = 1
"""The exit code where a person said no."""

SEE_FIRST = "say --yes, or see it first with --dry-run"

# What is asked first holds once; an agent that offers nothing of the kind is taken at its word.
_CHOICES = {
    "y": ("allow_once", "allow_always"),
    "n": ("reject_once", "reject_always"),
}
_SAID = {"y": "y", "yes": "y", "allow": "y", "n": "n", "no": "n", "reject": "n"}


def who_acts(environment: Mapping[str, str] = os.environ) -> Actor:
    """Return who runs this process, as far as it can be told."""
    # The nearest first: a shell that cleaned its environment stands below its agent all the same.
    models = (model_of(each) for each in chain([environment], environments_above()))
    return next(filter(None, models), A_PERSON if is_at_terminal() else PROGRAM)


def is_at_terminal(descriptor: int = 0) -> bool:
    """Return whether standard input is the terminal this process is in the foreground of."""
    try:
        # A process in the background of a terminal has no person who types.
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # no terminal, another's, or closed
        return False


def can_ask(output: Output) -> bool:
    """Return whether a person is there."""
    return output.is_live and sys.stdin is not None and who_acts().kind == "person"


class PermissionDialogue(Struct):
    """Asks one permission at a time. `before` clears the place where the question is written."""

    output: Output
    before: Callable[[], None]
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the person's answer; nobody's when they only close the input."""
        # Two calls may ask at once, and an answer must not go to the other question.
        async with self.lock:
            self.before()
            choices = _choices(request)
            self._show(request, choices)
            while True:
                said = await _read_line()
                # Ctrl-D is no refusal: parked, the turn can be gone on with.
                if not said:
                    self.output.note("nobody answered: the turn is parked")
                    return PermissionAnswer(option_id=None, answered_by=NOBODY)
                key = _SAID.get(said.strip().lower(), "")
                if key in choices:
                    return PermissionAnswer(option_id=choices[key][1], answered_by=PERSON)
                self._prompt(choices)

    def _show(self, request: PermissionRequest, choices: Choices) -> None:
        # Their words are the agent's: a line feed in one could write an answer of ours.
        kind = one_line(request.tool_kind)
        self.output.note(f"? the agent asks: {one_line(request.title)} ({kind})", "yellow")
        for location in request.locations[:LOCATIONS_SHOWN_MAX]:
            self.output.note(f"    {one_line(location)}")
        more = len(request.locations) - LOCATIONS_SHOWN_MAX
        if more > 0:
            self.output.note(f"    and {more} more")
        if not choices:
            offered = ", ".join(one_line(kind) for _, kind in request.options) or "none"
            self.output.note(f"  upthread knows none of its answers ({offered})")
        self._prompt(choices)

    def _prompt(self, choices: Choices) -> None:
        listed = ", ".join(
            f"{key} = {kind.replace('_', ' ')}" for key, (kind, _) in choices.items()
        )
        self.output.note(f"  {listed or 'Ctrl-D parks the turn'}:")


def _choices(request: PermissionRequest) -> Choices:
    """Return, by what a person types, the kind of an answer and the id of its option."""
    # Reversed, so that of two options of one kind the first that was offered counts.
    offered = {kind: option_id for option_id, kind in reversed(request.options)}
    return {
        key: next((kind, offered[kind]) for kind in kinds if kind in offered)
        for key, kinds in _CHOICES.items()
        if not offered.keys().isdisjoint(kinds)
    }


async def _read_line() -> str:
    """Return a line of the terminal, empty at its end; Ctrl-C is not held up by it."""
    descriptor = sys.stdin.fileno()
    # A read would sit in a thread that no cancellation reaches.
    await anyio.wait_readable(descriptor)
    return os.read(descriptor, ANSWER_CHARACTERS_MAX).decode("utf-8", "replace")


def choose_agent(output: Output, agents: tuple[str, ...]) -> str:
    """Ask for one of the agents, by its number or its name. UsageError when nobody answers."""
    output.note("? several agents are installed", "yellow")
    by_answer: dict[str, str] = {}
    for number, agent in enumerate(agents, start=1):
        output.note(f"    {number}  {agent}")
        by_answer |= {str(number): agent, agent: agent}
    while True:
        output.note('  which one? (write agent = "…" into upthread.toml to be asked no more)')
        said = sys.stdin.readline()
        if not said:
            raise UsageError("no agent was chosen", hint="name one with --agent")
        if chosen := by_answer.get(said.strip().lower()):
            return chosen


def choose(output: Output, question: str, choices: Sequence[str], *, usual: str) -> str:
    """Return the one of the choices a person names; the usual one for an empty line."""
    while True:
        output.note(f"{question} ({', '.join(choices)}) [{usual}]")
        said = sys.stdin.readline().strip().lower()
        if not said:
            return usual
        if said in choices:
            return said


def is_agreed(output: Output, question: str, *, hint: str = SEE_FIRST) -> bool:
    """Ask yes or no, no by default. Raises UsageError, with the hint, where nobody can answer."""
    # Never taken for a yes: a script says --yes where it means it.
    if not can_ask(output):
        raise UsageError("nobody is there to confirm it", hint=hint)
    output.note(f"{question} [y/N]")
    # An empty line, the input's end and anything unknown are a no.
    return _SAID.get(sys.stdin.readline().strip().lower()) == "y"


STDIN = "-"
BYTES_MAX = 1024 * 1024


def read_prompt(text: str) -> str:
    """Return the text, or standard input for `-`. Raises UsageError for what is no text."""
    if text != STDIN:
        return text
    return _decoded(_read_stdin(), "standard input")


def read_file(path: str, kind: str, option: str) -> str:
    """Return a file's text; `-` is standard input. Raises UsageError.

    Messages name the kind, for example "the specification", and the option that takes the file.
    """
    if path == STDIN:
        return _decoded(_read_stdin(), f"{kind} on standard input")
    what = f"{kind} {path!r}"
    try:
        return _decoded(_read(path), what)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        cure = error.cure if isinstance(error, files.FileRefusedError) else f"{option} FILE"
        raise UsageError(f"{what} cannot be read: {reason}", hint=cure) from error


def _read(path: str) -> bytes:
    """Read what was named in a repository as the repository's, anything else as the person's own.

    The person's own may be a pipe (--spec <(command)): its length is known only after reading.
    """
    place = files.place_within(untrusted_around(str(Path.cwd())), path)
    with Path(path).open("rb") if place is None else os.fdopen(files.within(*place), "rb") as file:
        return file.read(BYTES_MAX + 1)


def _read_stdin() -> bytes:
    # At a terminal it would wait, and look as if upthread did.
    if sys.stdin is None or os.isatty(sys.stdin.fileno()):
        raise UsageError("- reads standard input, and nothing is piped in", hint="… | upthread …")
    # One byte more, by which what is too long is told from what just fits.
    return sys.stdin.buffer.read(BYTES_MAX + 1)


def _decoded(raw: bytes, what: str) -> str:
    if len(raw) > BYTES_MAX:
        raise UsageError(f"{what} is longer than {BYTES_MAX} bytes", hint="shorten it")
    if b"\0" in raw:
        raise UsageError(f"{what} is binary, not text", hint="give a text file, UTF-8")
    try:
        # Editors may put a mark before the text, which is none of it.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is not UTF-8 text", hint="convert it to UTF-8") from error
    if not text.strip():
        raise UsageError(f"{what} is empty", hint="write down what is wanted")
    return text
