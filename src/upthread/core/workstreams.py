"""Which workstream a call belongs to, when nobody gave an address: said somewhere, never guessed.

In this order: the environment, a prompt that names a known workstream, `upthread use`, the branch
that is checked out unless it is the default one. Else none. Hooks start for every delegation, so
nothing is imported here that costs them time.
"""

from __future__ import annotations

import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

WORKSTREAM_VARIABLE = "UPTHREAD_WORKSTREAM"
"""By which a person, or whoever starts an agent, says which workstream it works in."""

CALLERS_VARIABLE = "UPTHREAD_CALLERS"
"""The conversations that a process was started inside of, outermost first, with commas."""

BYTES_MAX = 200
"""As `core.names.WORKSTREAM_BYTES_MAX`."""


SESSION_PREFIX = "session-"
SESSION_LETTERS = 8
"""How the workstream of a main session is called in which nothing names one."""

ROLE_UNKNOWN = "subagent"
"""What the role of a sub-agent is called where nobody said it, or only a model."""

ENVIRONMENT = "environment"
NAMED = "named_in_prompt"
USED = "used"
BRANCH = "branch"
NONE = "none"

BECAUSE = {
    ENVIRONMENT: f"{WORKSTREAM_VARIABLE} says so",
    NAMED: "a prompt of this session named it",
    USED: "`upthread use` says so",
    BRANCH: "it is the branch that is checked out",
    NONE: "nothing names one",
}
"""Each reason in words."""

_JOINING = "-_/"
"""Characters that go on with a name: `spec-42` is not named by `spec-42-b` or `old/spec-42`."""


def callers_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the conversations a process was started inside of, outermost first."""
    return tuple(filter(None, environment.get(CALLERS_VARIABLE, "").split(",")))


def choose_workstream(
    *,
    environment: str | None,
    named: str | None,
    used: str | None,
    branch: str | None,
    default_branch: Callable[[], str | None],
) -> tuple[str | None, str]:
    """Return the workstream and the reason's code; (None, "none") when nothing names one.

    `named` is what a prompt of the session named, `used` what `upthread use` said for the working
    tree. Something that is no name of a workstream counts as nothing said. `default_branch` is
    asked last, because that may start Git.
    """
    said = ((environment, ENVIRONMENT), (named, NAMED), (used, USED), (branch, BRANCH))
    for text, because in said:
        name = as_workstream(text or "")
        if name and (because != BRANCH or branch != default_branch()):
            return name, because
    return None, NONE


def session_workstream(session: str) -> str:
    """Return the workstream of a main session in which nothing names one: `session-b7464a1f`."""
    # The end of an id: the ids of some agents begin with the time.
    letters = "".join(each for each in session.lower() if each.isascii() and each.isalnum())
    return f"{SESSION_PREFIX}{letters[-SESSION_LETTERS:] or 'unknown'}"


def as_workstream(text: str) -> str | None:
    """Return a workstream's name as it is kept, None for what cannot be one."""
    name = text.strip()
    if not name.isascii():
        name = unicodedata.normalize("NFC", name)
    size = len(name.encode("utf-8", "surrogatepass"))
    return name if name.isprintable() and 0 < size <= BYTES_MAX else None


def named_workstream(prompt: str, known: Collection[str]) -> str | None:
    """Return the one known workstream a prompt names, None when it names none or several.

    A name that is a plain word counts only where the word `workstream` stands before it.
    """
    found = {name for name in known if _is_named(name, prompt)}
    return found.pop() if len(found) == 1 else None


def _is_named(name: str, prompt: str) -> bool:
    start = prompt.find(name)
    while start >= 0:
        before, after = prompt[:start], prompt[start + len(name) :]
        if _stands_alone(before, after) and (not name.isalpha() or _is_announced(before)):
            return True
        start = prompt.find(name, start + 1)
    return False


def _stands_alone(before: str, after: str) -> bool:
    if before and (before[-1].isalnum() or before[-1] in f"{_JOINING}."):
        return False
    if not after or not (after[0].isalnum() or after[0] in f"{_JOINING}."):
        return True
    # `spec-42/planner` is an address in it, `spec-42.` the end of a sentence.
    return after[0] in "/." and (after[0] == "/" or not after[1:2].isalnum())


def _is_announced(before: str) -> bool:
    words = before.rstrip(" \t\"'`").lower()
    return words.endswith(("workstream", "workstream:"))
