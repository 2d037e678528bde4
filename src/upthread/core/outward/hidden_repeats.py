"""Whether a line may do a held action again by something that its words do not tell. Pure.

What is run is read as text: a script of the shell by the parser that reads lines, and judged by its
actions; anything else by whether it mentions the action: the words that one writes who does it, in
any language. Which remotes of a repository are one is read as text as well, never by git: what is
not seen is another remote, by its name. A file can only have a line be held.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct, field

from upthread.core.lazy_regex import regex
from upthread.core.outward.actions import Action
from upthread.core.outward.families import PUSHES, with_remotes_unknown
from upthread.core.outward.nested_commands import Word, name_of
from upthread.core.outward.opaque import (
    Opaque,
    included_in,
    is_writing,
    opaque_of,
    recipe_of,
    script_of,
)
from upthread.core.outward.programs import actions_of_command
from upthread.core.outward.shell_commands import ShellCommand, commands_in

Read: TypeAlias = Callable[[str], str | None]
"""Gives the text of a file by its path; empty for one that is no text, None where none is there."""

DEPTH_MAX: Final = 3
"""How many files are followed from one to the next."""

TEXTS_MAX: Final = 64
"""How many scripts and tasks are looked into for one line."""

RUN_MAX: Final = 8
"""How many outward commands of one call are kept."""

UP_MAX: Final = 8
"""How many directories above the one where a line runs may be the repository's."""

SHOWN_CHARACTERS_MAX: Final = 100

_SHELL_SCRIPT: Final = regex(r"#!\S*(?:/env\s+(?:-S\s+)?)?(?:\S*/)?\s*(?:ba|da|k|z|a|fi)?sh\b")
_STRING: Final = regex(r"""'((?:[^'\\\n]|\\.){5,400})'|"((?:[^"\\\n]|\\.){5,400})\"""")
_LIST: Final = regex(r"""[\[(]\s*((?:['"][^'"\n]{1,200}['"]\s*,?\s*){2,32})[\])]""")
_WORD: Final = regex(r"""['"]([^'"\n]{1,200})['"]""")
_SAME: Final = "which goes to the same address by another name"
_NOT_TOLD: Final = "of which cannot be told what it does"


def why_may_repeat(line: str, held: Sequence[Action], read: Read, directory: str = "") -> str:
    """Return in words how a line may do one of these again, empty where nothing says so.

    `directory` is where it runs, by its path for `read`.
    """
    look = _Look(held=tuple(held), read=read, renamed=_renamed(held, read, directory))
    return look.into(line, directory=directory, depth=0)


def run_by(line: str, read: Read, directory: str = "") -> tuple[str, ...]:
    """Return the outward commands that a line runs without saying so, as lines of shell, each once.

    Those of the scripts, tasks and code that it runs. What is not found may be there all the same.
    """
    found: dict[str, None] = {}
    look = _Found(held=(), read=read, renamed=frozenset(), found=found)
    look.into(line, directory=directory, depth=0)
    return tuple(found)[:RUN_MAX]


class _Text(Struct, frozen=True, kw_only=True):
    """A text of shell that is looked into: its commands, where it runs, how many files deep."""

    line: str
    commands: Sequence[ShellCommand]
    directory: str
    depth: int


class _Look(Struct, frozen=True, kw_only=True):
    """`renamed` are other names of the remotes that the held actions went to."""

    held: tuple[Action, ...]
    read: Read
    renamed: frozenset[str]
    looked_into: set[tuple[str, tuple[Word, ...]]] = field(
        default_factory=set[tuple[str, tuple[Word, ...]]]
    )

    def into(
        self, line: str, *, directory: str, depth: int, arguments: tuple[Word, ...] = ()
    ) -> str:
        # Scripts may call each other in a circle.
        if (line, arguments) in self.looked_into:
            return ""
        self.looked_into.add((line, arguments))
        # Held, not passed: what was not looked into may do anything.
        if len(self.looked_into) > TEXTS_MAX:
            return "which runs more than is looked into"
        text = _Text(
            line=line, commands=commands_in(line, arguments), directory=directory, depth=depth
        )
        return next(filter(None, (self.judge(each, text) for each in text.commands)), "")

    def judge(self, command: ShellCommand, text: _Text) -> str:
        """Return why of one command of a text; outside of files with what it is that runs."""
        shown = _shown(command.words)
        if self._is_held(command):
            return f"whose commands hold `{shown}`" if text.depth else f"it runs `{shown}`, {_SAME}"
        opaque = opaque_of(command)
        why = self._of_opaque(opaque, command, text) if opaque else ""
        return f"it runs `{shown}`, {why}" if why and not text.depth else why

    def _is_held(self, command: ShellCommand) -> bool:
        found = actions_of_command(command)
        meant = [with_remotes_unknown(each, self.renamed) for each in found]
        return any(done.may_be(each) for done in self.held for each in meant)

    def _of_opaque(self, opaque: Opaque, command: ShellCommand, text: _Text) -> str:
        # Doubted only for what git itself does: else each alias of git's would be held.
        if opaque.is_git and not any(_is_of_git(each) for each in self.held):
            return ""
        if word := self._mentioned(_text(_counted(opaque, command))):
            return _mentions(word)
        if not command.written:
            return ""
        if opaque.is_closed:
            # Within a file it passes, but for git's own: else most scripts would be held.
            return "" if text.depth and not opaque.is_git else _NOT_TOLD
        return self._of_files(opaque, posixpath.join(text.directory, command.directory), text)

    def _of_files(self, opaque: Opaque, where: str, text: _Text) -> str:
        """Look into the files that a command runs: as they are, and as this line makes them."""
        made = [each for file in opaque.files for each in _made_of(file, text)]
        # A file that this very line makes holds what the line says, and cannot be read yet.
        if made and (word := self._mentioned(text.line)):
            return _mentions(word)
        files = [*opaque.files, *filter(None, made)]
        found = [self.read(posixpath.join(where, file)) for file in files]
        for file, each in zip(files, found, strict=True) if text.depth < DEPTH_MAX else ():
            home = posixpath.dirname(posixpath.join(where, file))
            # `make -C` and `npm --prefix` run where their file lies, a script where it is called.
            runs_at = home if opaque.way in {"make", "package"} else where
            if each and (why := self._of_text(each, opaque, runs_at, text.depth)):
                return why
        # What is made by this line counts as told only where its content stands in the line.
        is_told = any(each is not None for each in found) if not made else _is_written(text.line)
        if is_told or _is_module(opaque) or not opaque.files:
            return ""
        word = self._mentioned(_text(opaque.said))
        return _mentions(word) if word else "" if text.depth else _NOT_TOLD

    def _of_text(self, text: str, opaque: Opaque, where: str, depth: int) -> str:
        names = [word for word in opaque.arguments if word]
        if opaque.way == "make":
            included = (self.read(posixpath.join(where, each)) for each in included_in(text))
            recipe = recipe_of("\n".join([text, *(each or "" for each in included)]), names)
            return self.into(recipe, directory=where, depth=depth + 1)
        if opaque.way == "package":
            recipe = "\n".join(script_of(text, name) for name in names)
            return self.into(recipe, directory=where, depth=depth + 1)
        is_script = opaque.way == "program" and not text.startswith("#!")
        if opaque.way == "shell" or is_script or _SHELL_SCRIPT.match(text):
            return self.into(text, directory=where, depth=depth + 1, arguments=opaque.arguments)
        word = self._mentioned(text)
        return f"whose code mentions `{word}`" if word else ""

    def _mentioned(self, text: str) -> str:
        return next(filter(None, (mentioned(each, text) for each in self.held)), "")


class _Found(_Look, frozen=True, kw_only=True):
    """Finds what there is, and nothing that is held."""

    found: dict[str, None]

    def judge(self, command: ShellCommand, text: _Text) -> str:
        if text.depth:
            self._keep(command)
        # For what it looks into on the way; what it judges is of no use here.
        _Look.judge(self, command, text)
        return ""

    def _keep(self, command: ShellCommand) -> None:
        words = [word or "…" for word in command.words]
        if actions_of_command(command):
            self.found[shlex.join(words)] = None

    def _mentioned(self, text: str) -> str:
        """Keep what is written in code as a command: in one string, or as a list of its words."""
        said = [found[1] or found[2] for found in _STRING.finditer(text)]
        said += [" ".join(_WORD.findall(found[1])) for found in _LIST.finditer(text)]
        for each in said:
            self._keep(ShellCommand(words=tuple(each.split()) or ("",)))
        return ""


def _made_of(file: str, text: _Text) -> list[str]:
    """Return what a file is made of in the same line: files, or an empty name for its words."""
    name = re.escape(name_of(file))
    is_written = re.search(rf">\|?\s*['\"]?(?:\S*/)?{name}(?![\w.-])", text.line)
    found = [""] if is_written else []
    for command in text.commands:
        operands = [word for word in command.words[1:] if word and not word.startswith("-")]
        if is_writing(command.words) and any(name_of(each) == name_of(file) for each in operands):
            found += ["", *operands]
    return found


def _is_written(line: str) -> bool:
    """Whether what a line makes a file of stands in it, or in the files that were read."""
    return re.search(r"\b(?:cp|echo|install|ln|mv|printf)\b|<<", line) is not None


def _is_module(opaque: Opaque) -> bool:
    return len(opaque.files) > 1 and opaque.way == "code"


def _is_of_git(action: Action) -> bool:
    return action.family in PUSHES or action.family == "mail"


def _mentions(word: str) -> str:
    return f"which mentions `{word}`"


def _text(words: Iterable[Word]) -> str:
    return "\n".join(word for word in words if word)


def _counted(opaque: Opaque, command: ShellCommand) -> tuple[Word, ...]:
    """Return the words that may mention an action: not the name of a file that is read instead."""
    return opaque.arguments if opaque.files and command.written else opaque.said


def _renamed(held: Sequence[Action], read: Read, directory: str) -> frozenset[str]:
    """Return the other names that remotes of held pushes have in the repository around."""
    remotes = {each.target[0] for each in held if each.family in PUSHES and each.target}
    names = {name for name in remotes if name}
    places = (posixpath.join(directory, *[".."] * up, ".git") for up in range(UP_MAX))
    # The nearest first, as git looks for it: above may be another repository, with other remotes.
    for place in places if names else ():
        text = read(posixpath.join(place, "config"))
        if text is None and (pointer := read(place)):  # a worktree says where its repository is
            text = read(posixpath.join(pointer.partition(":")[2].strip(), "../../config"))
        if text is not None:
            return same_as(names, text)
    return frozenset()


def _shown(words: Sequence[Word]) -> str:
    shown = " ".join("…" if word is None else word for word in words)
    return " ".join(shown.split())[:SHOWN_CHARACTERS_MAX].replace("`", "'")


# --- the words that tell of an action -------------------------------------------------------------


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

_PUSHED: Final = regex(r"\.push\(")
_GIT: Final = regex(
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


# --- which remotes of a repository are one --------------------------------------------------------


_SECTION: Final = regex(r'\[\s*(?:remote\s+"((?:[^"\\]|\\.)*)"|[^\]]*)\s*\]')
_ADDRESS: Final = regex(r"(?:push)?url\s*=\s*\"?([^\"\s]+)\"?", re.IGNORECASE)


def same_as(names: Collection[str], configuration: str) -> frozenset[str]:
    """Return the remotes at an address of one of these, without those that are these themselves."""
    addresses: dict[str, set[str]] = {}
    at = ""
    for line in map(str.strip, configuration.splitlines()):
        if found := _SECTION.match(line):
            at = found[1] or ""
        elif at and (address := _ADDRESS.fullmatch(line)):
            addresses.setdefault(at, set()).add(_in_one_spelling(address[1]))
    meant = {each for name in names for each in addresses.get(name, ())}
    # Any address they share is enough: a push goes to all of a remote's push addresses.
    return frozenset(name for name, each in addresses.items() if each & meant) - frozenset(names)


def _in_one_spelling(address: str) -> str:
    plain = address.removeprefix("file://").rstrip("/").removesuffix(".git").rstrip("/")
    # `ssh://git@host/a` and `git@host:a` are one; who asks, and by what, changes nothing there.
    return re.sub(r"^(?:[a-z+]+://)?(?:[^@/]*@)?([^:/]+)[:/]+", r"\1/", plain)
