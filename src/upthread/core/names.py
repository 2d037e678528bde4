"""Addresses and names: how people say which conversation they mean, and what we call it back.

Pure text. A name is data for ever: nothing makes a path of one but `directory_name`, which leaves
nothing of it that means anything in one.

Which workstream a call belongs to is said somewhere and never guessed. In this order: the
environment, a prompt that names a known workstream, `upthread use`, the branch that is checked out
unless it is the default one. Else none.

A project is known by its repository: root commit and remote, so a moved directory and a worktree
are the same project, and so are two clones on two hosts. A repository that gains a remote, its
first commit, or a root commit older than that by which it was known (another history merged in,
more of a shallow one fetched, a branch begun anew) stays the project it was. Outside git the real
path is all there is, and whose it is: a path of another account or host is another place. Two
candidates are an error, never a guess.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from upthread.core.types import MAIN_SLOT, ConversationKey, Environment, ProjectId, ProjectIdentity
from upthread.errors import UsageError

Row = TypeVar("Row")

WORKSTREAM_BYTES_MAX = 200
ROLE_CHARACTERS_MAX = 64
SHOWN_CHARACTERS_MAX = 80
DIRECTORY_CHARACTERS_MAX = 60
DIGEST_CHARACTERS = 8

BASE_NAMES = tuple(
    """
    Aitana Kael Lyra Zev Thalia Iago Elowen Mael Noor Bram Saskia Teo Imani Rune Odile Juno Anselm
    Petra Cato Wren Ilse Dario Freya Hugo Maren Silas Vera Otis Leda Nils Amara Emil Tove Rafael
    Signe Luca Hanne Pavel Marisol Corin Alba Jonas Yara Felix Inga Matteo Suri Leif Carmen Ivo
    Nadia Orson Bea Tariq Linnea Aldo Mira Edda Casper Zora Quinn Rosalind Viggo Asta
    """.split()
)
"""Given out in an order of the workstream's own; then again with a number, `Kael2`."""

_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_DIGESTED = re.compile(r"(?:\A|-)[0-9a-f]{8}\Z")
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_MARKS = re.compile(r"[\W_]+")
_SLOT = re.compile(r"(?P<role>.+)~(?P<slot>[1-9][0-9]{0,5})")


class Address(Struct, frozen=True, kw_only=True):
    """A parsed `WORKSTREAM/ROLE[~SLOT]`."""

    workstream: str
    role: str
    slot: int = MAIN_SLOT


def key_of(project_id: ProjectId, address: Address) -> ConversationKey:
    """Return the key behind an address of a project."""
    return ConversationKey(
        project_id=project_id, workstream=address.workstream, role=address.role, slot=address.slot
    )


def parse_address(text: str) -> Address:
    """Split at the last slash; raises UsageError that says which half is wrong."""
    workstream, slash, last = text.rpartition("/")
    if not slash:
        raise UsageError(
            f"{shown(text)} is not an address",
            hint="an address is WORKSTREAM/ROLE, such as spec-42/planner",
        )
    sibling = _SLOT.fullmatch(last)
    role, slot = (sibling["role"], int(sibling["slot"])) if sibling else (last, MAIN_SLOT)
    return Address(workstream=parse_workstream(workstream), role=parse_role(role), slot=slot)


def parse_workstream(text: str) -> str:
    """Return the name in NFC; raises UsageError for an empty, too long or unprintable one."""
    if not text.isprintable():
        raise UsageError(
            f"the workstream name {shown(text)} has a character that cannot be printed",
            hint="use letters, digits, punctuation and spaces",
        )
    name = unicodedata.normalize("NFC", text.strip())
    size = len(name.encode())
    if not name:
        raise UsageError("the workstream name is empty", hint="name the piece of work: spec-42")
    if size > WORKSTREAM_BYTES_MAX:
        raise UsageError(
            f"the workstream name {shown(name)} has {size} bytes",
            hint=f"at most {WORKSTREAM_BYTES_MAX} bytes are allowed",
        )
    return name


def parse_role(text: str) -> str:
    """Return the role's name; raises UsageError unless it is `[a-z0-9][a-z0-9_-]*`."""
    if not _ROLE.fullmatch(text) or len(text) > ROLE_CHARACTERS_MAX:
        raise UsageError(
            f"{shown(text)} is not a role name",
            hint=f"lower-case letters, digits, - and _, at most {ROLE_CHARACTERS_MAX}: planner",
        )
    return text


def directory_name(workstream: str) -> str:
    """Return a name for a directory and a branch, of letters that both may have anywhere.

    The workstream's own where it is such a name; else what is left of it, and a part of its digest
    so that no two workstreams share one.
    """
    is_short = len(workstream) <= DIRECTORY_CHARACTERS_MAX
    if is_short and _PLAIN.fullmatch(workstream) and not _DIGESTED.search(workstream):
        return workstream
    digest = hashlib.sha256(workstream.encode()).hexdigest()[:DIGEST_CHARACTERS]
    readable = _NOT_PLAIN.sub("-", workstream.lower())[:DIRECTORY_CHARACTERS_MAX].strip("-")
    return f"{readable}-{digest}" if readable else digest


def shown(text: str) -> str:
    """Quote a name for a message: escaped and cut, so that no name can forge a line."""
    cut = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
    return ascii(cut) if not cut.isprintable() else repr(cut)


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return the end of an error about a name that is not known: the one that is like it."""
    from difflib import get_close_matches  # noqa: PLC0415  # only where there is an error

    close = get_close_matches(typed, list(known), n=1)
    return f". Did you mean {shown(close[0])}?" if close else ""


def choose_base_name(workstream: str, taken: Collection[str]) -> str:
    """Return the first free base name in this workstream's own order of the list."""
    start = int.from_bytes(hashlib.sha256(workstream.encode()).digest()[:4], "big")
    used = set(taken)
    lap = 1
    while True:
        for offset in range(len(BASE_NAMES)):
            name = BASE_NAMES[(start + offset) % len(BASE_NAMES)] + ("" if lap == 1 else str(lap))
            if name not in used:
                return name
        lap += 1


def folded(name: str) -> str:
    """Return a name without case and marks: `filePath` and `file_path` are one."""
    return _MARKS.sub("", name).casefold()


# --- which workstream a call belongs to -----------------------------------------------------------

WORKSTREAM_VARIABLE = "UPTHREAD_WORKSTREAM"
"""By which a person, or whoever starts an agent, says which workstream it works in."""

CALLERS_VARIABLE = "UPTHREAD_CALLERS"
"""The conversations that a process was started inside of, outermost first, with commas."""

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


def callers_in(environment: Environment) -> tuple[str, ...]:
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
    try:
        return parse_workstream(text.strip())
    except UsageError:
        return None


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


# --- which project a directory belongs to ---------------------------------------------------------

_SCP_LIKE = r"^(?:[^/]*@)?(?P<host>[^:/]+):(?P<path>.+)$"
_URL = r"(?i)^(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/]*@)?(?P<host>[^/?#]*)(?P<path>[^?#]*)"
_DEFAULT_PORTS = {"ssh": ":22", "https": ":443", "http": ":80", "git": ":9418"}


def project_id_for(identity: ProjectIdentity) -> ProjectId:
    """Return the id of a new project; it follows from the identity, so no two processes differ."""
    known_by = (
        f"git\n{identity.root_commit}\n{identity.remote or ''}"
        if identity.root_commit
        else f"path\n{identity.path}"
        if identity.owner is None
        else f"owned path\n{identity.owner}\n{identity.path}"
    )
    digest = hashlib.sha256(known_by.encode("utf-8", "surrogatepass")).hexdigest()
    return ProjectId(f"prj_{digest[:24]}")


def roots_before(
    identity: ProjectIdentity, known: Iterable[tuple[ProjectId, ProjectIdentity]]
) -> frozenset[str]:
    """Return the root commits by which this very place was known, where none is what it has now.

    Those of them that its repository still has are `held` for `match_project`.
    """
    here = {other.root_commit for _, other in known if _is_same_place(other, identity)}
    if identity.root_commit is None or identity.root_commit in here:
        return frozenset()
    return frozenset(filter(None, here))


def match_project(
    identity: ProjectIdentity,
    known: Iterable[tuple[ProjectId, ProjectIdentity]],
    *,
    held: Collection[str] = (),
) -> ProjectId | None:
    """Return the known project a directory belongs to, None for a new one.

    `held` are commits of `roots_before` that its repository still has: it is the one it was by
    them, though its history now leads to an older one. Raises UsageError when two projects fit
    equally well.
    """
    candidates = list(known)
    if identity.root_commit is None:
        return _only(
            {pid for pid, other in candidates if _is_same_place(other, identity)}, identity.path
        )
    still = {
        pid
        for pid, other in candidates
        if other.root_commit in held and _is_same_place(other, identity)
    }
    # Before all that has the same root: what was merged in may be a project that is known as well.
    if still:
        return _only(still, identity.path)
    same_root = [(pid, o) for pid, o in candidates if o.root_commit == identity.root_commit]
    exact = {pid for pid, other in same_root if other.remote == identity.remote}
    here = {pid for pid, other in same_root if _is_same_place(other, identity)}
    with_remote = {pid for pid, other in same_root if other.remote is not None}
    # A project that has a remote is not the fork with another one, whatever it was known by before.
    near = {pid for pid, _ in same_root if identity.remote is None or pid not in with_remote}
    without_commit = {
        pid
        for pid, other in candidates
        if other.root_commit is None and _is_same_place(other, identity)
    }
    return _only((exact & here) or exact or here or near or without_commit, identity.path)


def is_unrelated(
    own: ProjectIdentity, others: Collection[ProjectIdentity], *, held: Collection[str]
) -> bool:
    """Return whether a repository is another than the project that is known by `others`.

    `held` are the root commits among all these that a whole clone of the repository has. Its own
    is among them if git answers. A project with the same remote, or with a path outside of git, is
    never unrelated, because the repository may be its next release.
    """
    roots = {each.root_commit for each in others}
    remotes = {each.remote for each in others}
    if own.root_commit not in held or not roots.isdisjoint({None, *held}):
        return False
    return own.remote is None or own.remote not in remotes


def is_anybodys(
    identity: ProjectIdentity, known: Iterable[tuple[ProjectId, ProjectIdentity]]
) -> tuple[ProjectId, ...]:
    """Return the projects recorded under a path before paths had owners: whose, nobody knows.

    To be asked where `match_project` found none.
    """
    if identity.owner is None:
        return ()
    found = {
        pid
        for pid, other in known
        if other.owner is None
        and other.path == identity.path
        and (identity.root_commit is None or other.root_commit in {None, identity.root_commit})
    }
    return tuple(sorted(found))


def _is_same_place(one: ProjectIdentity, other: ProjectIdentity) -> bool:
    return (one.owner, one.path) == (other.owner, other.path)


def normalise_remote(url: str) -> str | None:
    """Return `host/path` of a git remote, so that ssh and https forms are one; None for blank.

    Credentials in the URL, its query and the scheme's own port are dropped and never stored. What
    is no URL, such as a path, is returned as it is.
    """
    text = url.strip()
    found = re.match(_URL, text)
    if found:
        return _host_and_path(found["scheme"].lower(), found["host"], found["path"])
    found = re.match(_SCP_LIKE, text)
    if found:
        return _host_and_path("ssh", found["host"], found["path"])
    return text or None


def _host_and_path(scheme: str, host: str, path: str) -> str:
    host = host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ":"))
    path = path.strip("/").removesuffix(".git")
    return f"{host}/{path}"


def _only(candidates: set[ProjectId], path: str) -> ProjectId | None:
    if len(candidates) > 1:
        listed = ", ".join(sorted(candidates))
        raise UsageError(
            f"{path} could belong to {len(candidates)} projects: {listed}",
            hint="say which with --project",
            path=path,
        )
    return next(iter(candidates), None)


def rows_by_name(*tables: tuple[str, Row]) -> Mapping[str, Row]:
    """Return rows by the names they are for: ("scp rsync", ROW) is a row for each of the two."""
    return {name: row for names, row in tables for name in names.split()}
