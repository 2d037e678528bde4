"""The words that tell of an action: what one writes who does it, in any language. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from upthread.core.outward.actions import Action
from upthread.core.outward.families import PUSHES

_BY_FAMILY: Final = {
    **dict.fromkeys(PUSHES, ("push", "send-pack")),
    "push an image": ("push", "skopeo"),
    "mail": ("mail", "sendmail", "smtp", "smtplib", "msmtp", "swaks", "mutt", "nodemailer"),
    "copy": ("scp", "rsync", "sftp"),
    "ssh": ("ssh", "paramiko"),
    "aws": ("aws", "boto3", "s3"),
    "HTTP": ("http", "https", "curl", "wget"),
    "package": ("publish", "twine", "upload", "yank", "unpublish", "deprecate", "dist-tag"),
}

_WITH_PLACE: Final = frozenset({"mail", "copy", "ssh"})
"""The families whose first target tells as well: a host, somebody's address."""

_PUSHED: Final = re.compile(r"\.push\(")
_GIT: Final = re.compile(
    r"(?<![a-z])(?:git|gitpython|pygit2?|nodegit|simple-git|isomorphic-git|dulwich|jgit|libgit2"
    r"|rugged)(?![a-z])",
    re.IGNORECASE,
)
"""A list of JavaScript is pushed to as well; not every such call is one of git's."""


def mentioned(action: Action, text: str) -> str:
    """Return the word in a text that tells of an action, empty where none does."""
    if found := _pattern(action).search(text):
        return found[0]
    is_push = action.family in PUSHES and _GIT.search(text) is not None
    return "push" if is_push and _PUSHED.search(text) else ""


@lru_cache(maxsize=256)
def _pattern(action: Action) -> re.Pattern[str]:
    """Whole words: `push`, `git_push`, `gitPush` and `PUSH`, not `pushd` and not `x.push`."""
    words = [re.escape(word) for word in _words_of(action)]
    capital = [re.escape(word.capitalize()) for word in _words_of(action)]
    upper = [re.escape(word.upper()) for word in _words_of(action)]
    return re.compile(
        rf"(?<![a-z0-9.])(?:{'|'.join(words)})(?![a-z0-9])"
        rf"|(?<!\.)(?:{'|'.join(capital)})(?![a-z0-9])"
        rf"|(?<![A-Z0-9])(?:{'|'.join(upper)})(?![A-Z0-9])"
    )


def _words_of(action: Action) -> tuple[str, ...]:
    family, told = action.family, [each for each in action.target if each]
    if family.startswith("HTTP ") and told:
        return _of_address(told[0])
    if family == "configured" and told:
        return (told[0].split()[0].rpartition("/")[2] or told[0],)
    first, last = family.partition(" ")[0], family.rpartition(" ")[2]
    known = _BY_FAMILY.get(family) or _BY_FAMILY.get(last) or _BY_FAMILY.get(first)
    if known is None:  # a program's, a script's, a tool's of a server
        named = family.partition(": ")[2] or family.removeprefix("script ")
        return tuple(dict.fromkeys((named.partition(" ")[0], named.rpartition("__")[2])))
    if family in _WITH_PLACE:
        return (*known, *(re.split(r"[:,]", told[0])[:1] if told else ()))
    return (*known, first) if last == "package" else known


def _of_address(url: str) -> tuple[str, ...]:
    """Return an address's host and path: either tells of a request."""
    host, slash, path = url.partition("://")[2].partition("/")
    name, colon, port = host.partition(":")
    also = (f"127.0.0.1{colon}{port}",) if name == "localhost" else ()
    # Either: code may put an address together from the two.
    return (host or url, *also, *((slash + path,) if path else ()))
