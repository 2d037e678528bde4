"""An action beyond this machine: its family, and what it is done to. Pure.

Two wordings of one action are equal here. What a wording leaves out is None: `git push` may mean
any remote, so it may be the same as a push to one. To look once too often costs a question; to look
once too seldom does the action twice.

With what a person may ask whether it was done is words only, never run: commands that change
nothing, in the project's own directory, and only about names of the plainest form, since the words
are an agent's and somebody is to type them.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from upthread.core.text import command


class Action(Struct, frozen=True, kw_only=True, order=True):
    """One action: what kind it is, and the words that say what it is done to, and where.

    A word is None where only running the line would tell; `place` is None where nothing says it.
    """

    family: str
    words: tuple[str | None, ...] = ()
    place: str | None = None

    @property
    def in_words(self) -> str:
        """The family and what is known of its target: `push origin main`."""
        return " ".join((self.family, *(each for each in self.words if each)))

    def may_be(self, other: Action) -> bool:
        """Return whether both may be one action: the one says no more than the other, or less."""
        is_elsewhere = self.place and other.place and self.place != other.place
        if self.family != other.family or is_elsewhere:
            return False
        mine, theirs = {*self.words}, {*other.words}
        is_open = None in mine and None in theirs
        return is_open or mine - {None} <= theirs or theirs - {None} <= mine


# --- with what a person looks whether it was done -------------------------------------------------


_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
"""No option, no address, no `ext::`, no word of a shell."""

_IMAGE: Final = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,199}")
_VIEWED: Final = {
    "release": ("create", "delete", "edit", "upload"),
    "pr": ("close", "create", "merge", "reopen"),
    "issue": ("close", "delete", "reopen"),
}


def look_of(action: Action) -> str:
    """Return the command that shows what is there now, empty where none is known."""
    words, place = [word for word in action.words if word is not None], action.place
    is_plain = all(map(_PLAIN.fullmatch, words))
    match action.family.split():
        # Asked in the project's own directory: of a push from another one it would tell another's.
        case ["push"] | ["delete", "of", "a", "ref"] if is_plain and place is None:
            return _ls_remote(*action.words)
        case ["docker", "push"] if len(words) == 1 and _IMAGE.fullmatch(words[0]):
            return command("docker", "manifest", "inspect", words[0])
        case ["gh", noun, verb] if verb in _VIEWED.get(noun, ()) and is_plain and len(words) == 1:
            at = ("--repo", place) if place else ()
            return (
                command("gh", noun, "view", words[0], *at) if _PLAIN.fullmatch(place or "x") else ""
            )
        case _:
            return ""


def _ls_remote(*words: str | None) -> str:
    """`git ls-remote`: the commit that a branch has at the remote; with no branch, of all."""
    match words:
        case (str(remote), str(ref)):
            return command("git", "ls-remote", remote, f"refs/heads/{ref}")
        case (str(remote), None):
            return command("git", "ls-remote", remote)
        case (None, None):  # git says which one it asked
            return command("git", "ls-remote")
        case _:  # another program's push, or one to an address
            return ""
