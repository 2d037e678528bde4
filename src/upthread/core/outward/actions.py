"""An action beyond this machine: its family, and what it is done to. Pure.

Two wordings of one action are equal here. What a wording leaves out is None: `git push` may mean
any remote, so it may be the same as a push to one. To look once too often costs a question; to look
once too seldom does the action twice.

With what a person may ask whether it was done is words only, never run: commands that change
nothing, in the project's own directory, and only about names of the plainest form, since the words
are an agent's and somebody is to type them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Final, TypeAlias

from upthread.core.lazy_dataclass import dataclass
from upthread.core.lazy_regex import regex
from upthread.core.text import command


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Action:
    """One action. `target` has a place for each thing it is done to; None where nothing says it."""

    family: str
    target: tuple[str | None, ...] = ()

    @property
    def in_words(self) -> str:
        """The family and what is known of its target: `push origin main`."""
        return " ".join((self.family, *(each for each in self.target if each)))

    def may_be(self, other: Action) -> bool:
        """Return whether both may be one action: nothing that both say differs."""
        return self.family == other.family and all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in zip_longest(self.target, other.target)
        )


# --- with what a person looks whether it was done -------------------------------------------------


_Target: TypeAlias = tuple[str | None, ...]

_PLAIN: Final = regex(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
"""No option, no address, no `ext::`, no word of a shell."""

_IMAGE: Final = regex(r"[a-z0-9][a-z0-9._/:@-]{0,199}")


def look_of(action: Action) -> str:
    """Return the command that shows what is there now, empty where none is known."""
    look = _LOOKS.get(action.family)
    return look(action.target) if look else ""


def _pushed(target: _Target) -> str:
    """`git ls-remote`: the commit that a branch has at the remote; with no branch, of all."""
    if len(target) != 3:  # another program's push
        return ""
    remote, ref, place = target
    # Asked in the project's own directory: of a push from another one it would tell another's.
    if place is not None or not (_is_plain(remote) and _is_plain(ref)):
        return ""
    if remote is None:  # git says which one it asked
        return "" if ref else command("git", "ls-remote")
    return command("git", "ls-remote", remote, *((f"refs/heads/{ref}",) if ref else ()))


def _is_plain(word: str | None) -> bool:
    return word is None or _PLAIN.fullmatch(word) is not None


def _at_forge(*words: str) -> Callable[[_Target], str]:
    """One command of a forge's own program about one thing, in the repository that was named."""

    def look(target: _Target) -> str:
        about, repository = (*target, None, None)[:2]
        if about is None or not (_is_plain(about) and _is_plain(repository)):
            return ""
        return command(*words, about, *(("--repo", repository) if repository else ()))

    return look


def _image_pushed(target: _Target) -> str:
    image = target[0] if target else None
    if image is None or not _IMAGE.fullmatch(image):
        return ""
    return command("docker", "manifest", "inspect", image)


_LOOKS: Final[Mapping[str, Callable[[_Target], str]]] = {
    "push": _pushed,
    "delete of a ref": _pushed,
    "push an image": _image_pushed,
    **{
        f"gh {noun} {verb}": _at_forge("gh", noun, "view")
        for noun, verbs in {
            "release": ("create", "delete", "edit", "upload"),
            "pr": ("close", "create", "merge", "reopen"),
            "issue": ("close", "delete", "reopen"),
        }.items()
        for verb in verbs
    },
}
