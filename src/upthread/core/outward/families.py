"""What a program does beyond this machine, read from its words; a reader for each family. Pure.

Where what it does cannot be told, such as a ref that only git knows, that place of the target is
None, which may be anything (actions.py). The words of each program's command line are those of its
own documentation, as seen in git 2.51, gh 2.83, curl 8.17, npm 11, kubectl 1.34, Terraform 1.14,
OpenSSH 9.2 and rsync 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from upthread.core.lazy_dataclass import dataclass, field
from upthread.core.lazy_regex import regex
from upthread.core.outward.actions import Action
from upthread.core.outward.nested_commands import (
    DRY_RUNS,
    PACKAGERS,
    SHELLS,
    TASK_RUNNERS,
    Word,
    name_of,
)

Read: TypeAlias = Callable[["Line"], tuple[Action, ...]]

DRY: Final = frozenset({"--dry-run", "-n", "--dryrun", "--check", "--diff", "--help", "-h"})


@dataclass(slots=True, kw_only=True)
class Line:
    """A command's words told apart: `operands` are those that belong to no option.

    `options` has each option's last word, empty for one without; `directory` where it runs.
    """

    name: str
    operands: list[Word] = field(default_factory=list[Word])
    options: dict[str, Word] = field(default_factory=dict[str, Word])
    directory: str | None = None

    def operand(self, at: int) -> Word:
        """Return an operand, None where there is none or it is not known."""
        return self.operands[at] if at < len(self.operands) else None

    def has(self, *names: str) -> bool:
        """Return whether one of these options is there."""
        return any(name in self.options for name in names)

    def option(self, *names: str) -> Word:
        """Return the word of the first of these options that is there."""
        return next((self.options[name] for name in names if name in self.options), None)


# --- git ------------------------------------------------------------------------------------------

PUSHES: Final = frozenset({"push", "delete of a ref"})
"""The families of what git sends: their target is a remote, a ref, and where from."""

_EVERY_REF: Final = frozenset({"--all", "--mirror", "--branches"})


def read_git(line: Line) -> tuple[Action, ...]:
    """`git`: a push is what it pushes and where; a dry run is none, nor is what asks for help."""
    place = line.option("-C", "--work-tree", "--git-dir") or line.directory
    verb, rest = line.operand(0), line.operands[1:]
    if verb in {"subtree", "lfs"} and line.operand(1) == "push":
        verb, rest = "push", rest[1:]
    if verb in {"send-email", "request-pull"}:
        return (Action(family="mail", target=(line.option("--to"),)),)
    if verb in {"svn", "p4"}:
        return plain(line, "push") if line.operand(1) in {"dcommit", "submit"} else ()
    if verb not in {"push", "send-pack"} or line.has("--dry-run", "-n", "--help", "-h"):
        return ()
    remote = rest[0] if rest else line.option("--repo")
    refs: list[Word] = list(rest[1:])
    if line.has("--tags") and not refs:
        refs = ["--tags"]
    # Git's configuration says what goes then: it may be any ref.
    if not refs or line.has(*_EVERY_REF):
        refs = [None]
    return tuple(_push(remote, ref, place, is_deleted=line.has("--delete", "-d")) for ref in refs)


def _push(remote: Word, ref: Word, place: Word, *, is_deleted: bool) -> Action:
    # `+main` and `a:main` reach the same ref as `main` does.
    source, has_to, to = (ref or "").lstrip("+").rpartition(":")
    named = to.removeprefix("refs/heads/")
    if "*" in named or (has_to and not named and not source):  # a pattern, all that have the name
        named = ""
    else:
        is_deleted = is_deleted or bool(has_to and not source)
    return Action(
        family="delete of a ref" if is_deleted else "push",
        target=(_remote(remote), None if named in {"", "HEAD", "@"} else named, place),
    )


def _remote(remote: Word) -> Word:
    """Return a remote's name. What one at an address is called only git knows, so that is None."""
    return remote if remote and not re.search(r"[/:@\\]", remote) else None


# --- a service's own program ----------------------------------------------------------------------

_GH_LOOKS: Final = frozenset(
    {"browse", "checkout", "checks", "clone", "diff", "download", "list", "search", "status"}
    | {"token", "view", "watch", "set-default", "co", "ls", "get", "show", "list-user"}
)
_GH_LOCAL: Final = frozenset(
    {"auth", "config", "alias", "completion", "extension", "help", "search"}
)


def read_gh(line: Line) -> tuple[Action, ...]:
    """A forge's own program, `gh` or `glab`: all that does not look."""
    noun, verb = line.operand(0), line.operand(1)
    if noun == "api":
        return _gh_api(line)
    if noun is None or noun in _GH_LOCAL or verb in _GH_LOOKS or not verb:
        return ()
    about = line.operand(2) or line.option("--head", "-H", "--source-branch") or _title(line, noun)
    repository = line.option("--repo", "-R")
    return (Action(family=f"{line.name} {noun} {verb}", target=(about, repository)),)


def _title(line: Line, noun: str) -> Word:
    # A pull request is that of its branch: under another title it would be the same one.
    return None if noun in {"pr", "mr"} else line.option("--title", "-t", "--name")


def _gh_api(line: Line) -> tuple[Action, ...]:
    has_fields = line.has("-f", "-F", "--field", "--raw-field", "--input")
    method = (line.option("-X", "--method") or ("POST" if has_fields else "GET")).upper()
    path = line.operand(1)
    return () if method in {"GET", "HEAD"} else (Action(family=f"HTTP {method}", target=(path,)),)


# --- publishing -----------------------------------------------------------------------------------


def read_npm(line: Line) -> tuple[Action, ...]:
    """A package of npm, by whichever of its clients."""
    verbs = [word for word in line.operands[:2] if word in {*_NPM_PUBLISHING}]
    if not verbs or line.has("--dry-run"):
        return ()
    what = line.operands[line.operands.index(verbs[0]) + 1 :]
    place = line.option("--prefix", "-C", "--cwd", "--workspace", "-w") or line.directory
    return (Action(family=f"{verbs[0]} a package", target=(what[0] if what else None, place)),)


_NPM_PUBLISHING: Final = ("publish", "unpublish", "deprecate", "dist-tag", "owner", "access")


def uploading(*verbs: str) -> Read:
    """A program that publishes with these verbs: to a repository, from a directory."""

    def read(line: Line) -> tuple[Action, ...]:
        at = next((i for i, word in enumerate(line.operands) if word in verbs), None)
        if at is None or line.has("--dry-run", "-n"):
            return ()
        named = line.option("-p", "--package", "-r", "--repository", "--repository-url")
        return (Action(family="publish a package", target=(named, line.directory)),)

    return read


def image(line: Line) -> tuple[Action, ...]:
    """An image that is pushed, by itself or when it was built."""
    operands = [word for word in line.operands if word not in {"image", "buildx", "manifest"}]
    if operands[:1] == ["push"]:
        return (Action(family="push an image", target=(operands[1] if operands[1:] else None,)),)
    is_built_and_pushed = operands[:1] in (["build"], ["bake"]) and line.has("--push")
    tag = line.option("-t", "--tag")
    return (Action(family="push an image", target=(tag,)),) if is_built_and_pushed else ()


# --- HTTP -----------------------------------------------------------------------------------------

BODY: Final = (
    *("-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--data-ascii"),
    *("-F", "--form", "--form-string", "-T", "--upload-file", "--json", "--post-data"),
    *("--post-file", "--body-data", "--body-file"),
)
_HTTP_LOOKS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def read_curl(line: Line) -> tuple[Action, ...]:
    """A request by `curl` or `wget`: what has a body or a method of its own."""
    implied = "PUT" if line.has("-T", "--upload-file") else "POST" if line.has(*BODY) else "GET"
    if line.has("-G", "--get"):
        implied = "GET"
    given = line.option("-X", "--request", "--method")
    method = (given or implied).upper()
    if line.has("-X", "--request", "--method") and given is None:
        method = "POST"  # one that only running it would tell
    urls = [*line.operands, *([line.options["--url"]] if line.has("--url") else [])]
    if method in _HTTP_LOOKS:
        return ()
    return tuple(Action(family=f"HTTP {method}", target=(_url(url),)) for url in urls or [None])


_ITEM: Final = regex(r":=|[^=]=[^=]|@")


def httpie(line: Line) -> tuple[Action, ...]:
    """A request by `http` or `xh`, whose fields make it a POST."""
    first = line.operand(0) or ""
    is_method = first.isalpha() and first.isupper()
    at = 1 if is_method else 0
    items = [word for word in line.operands[at + 1 :] if word and _ITEM.search(word)]
    method = first if is_method else "POST" if items else "GET"
    url = _url(line.operand(at))
    return () if method in _HTTP_LOOKS else (Action(family=f"HTTP {method}", target=(url,)),)


_LOOPBACK: Final = regex(r"^(?:127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])(?=$|:)")
"""This machine by another name than `localhost`."""


def _url(url: Word) -> Word:
    """Return an address in one spelling: a scheme, no default port, no slash at the end."""
    if not url:
        return None
    whole = url if "://" in url else f"http://{url}"
    scheme, _, rest = whole.partition("://")
    host, slash, path = rest.partition("/")
    # Who asks changes nothing of what is asked for.
    host = re.sub(r":(80|443)$", "", host.rpartition("@")[2]).casefold()
    host = _LOOPBACK.sub("localhost", host)
    return f"{scheme.casefold()}://{host}{slash}{path}".partition("#")[0].rstrip("/")


# --- deploying, migrating, copying, mailing -------------------------------------------------------

_KUBE_ACTS: Final = frozenset(
    {"annotate", "apply", "autoscale", "cordon", "create", "delete", "drain", "edit", "expose"}
    | {"label", "patch", "replace", "rollout", "run", "scale", "set", "taint", "uncordon", "exec"}
)
_CLOUD_LOOKS: Final = regex(
    r"(describe|list|get|head|show|view|search|logs?|status|help|wait|ls|info|version|whoami|print|read"
    r"|test|validate|diff|preview|plan|configure|config|auth|login|init|tail|history|top|explain)"
    r"(-.*)?$"
)


_CLOUD_ACTS: Final = regex(
    r"(add|apply|attach|cancel|copy|cp|create|delete|deploy|destroy|detach|disable|down|enable"
    r"|execute|import|invoke|modify|mv|patch|promote|publish|put|register|release|remove|reset"
    r"|resize|restart|restore|revoke|rm|rollback|scale|send|set|start|stop|submit|sync|terminate"
    r"|up|update|upload|upgrade|write)(-.*)?$"
)

_VERB_WITHIN: Final = 4
"""Among how many words the verb is: `gcloud compute instances list` has it in the third place."""


def kubectl(line: Line) -> tuple[Action, ...]:
    """`kubectl`: the verbs that change a cluster."""
    verb = line.operand(0)
    is_looking = verb == "rollout" and line.operand(1) in {"status", "history"}
    if verb not in _KUBE_ACTS or is_looking or line.option("--dry-run") not in {None, "none"}:
        return ()
    files = (line.option("-f", "--filename", "-k", "--kustomize"),)
    at = (line.option("--context"), line.option("-n", "--namespace"))
    return (Action(family=f"kubectl {verb}", target=(*files, *at, *line.operands[1:])),)


def cloud(line: Line) -> tuple[Action, ...]:
    """A cloud's own program: what it is asked to do, unless that is to look."""
    # `aws logs` is a service and what is done with it comes after; `gcloud logs` looks.
    is_service = line.name == "aws" and line.operand(0) == "logs"
    words = line.operands[1:] if is_service else line.operands
    if not words or _is_looking(words[:_VERB_WITHIN]):
        return ()
    if line.has("--dry-run", "--dryrun", "--help"):
        return ()
    return (Action(family=line.name, target=tuple(line.operands)),)


def _is_looking(words: Sequence[Word]) -> bool:
    """Return whether the verb looks. The first that is known decides: what follows are names."""
    for word in words:
        verb = (word or "").rpartition(":")[2]  # `heroku apps:create`
        if _CLOUD_LOOKS.match(verb):
            return True
        if _CLOUD_ACTS.match(verb):
            return False
    return False


def acting(family: str, *verbs: str) -> Read:
    """A program that acts with these verbs alone, and is told on what by its operands."""

    def read(line: Line) -> tuple[Action, ...]:
        verb = next((word for word in line.operands[:2] if word in verbs), None)
        if verb is None or line.has("--dry-run", "--help", "--sql"):
            return ()
        target = (line.option("--app", "-a", "--env", "--stage", "--workspace"), line.directory)
        rest = line.operands[line.operands.index(verb) + 1 :]
        return (Action(family=f"{family}: {line.name} {verb}", target=(*target, *rest)),)

    return read


def plain(line: Line, family: str) -> tuple[Action, ...]:
    """Return one action of a program that is told by its name and where it runs."""
    return (Action(family=family, target=(line.name, line.directory)),)


def always(family: str) -> Read:
    """A program that only acts: its operands are whom it reaches."""

    def read(line: Line) -> tuple[Action, ...]:
        return () if line.has(*DRY) else (Action(family=family, target=tuple(line.operands)),)

    return read


def read_mail(line: Line) -> tuple[Action, ...]:
    """Mail, by its recipients in any order."""
    recipients = sorted(word for word in line.operands if word)
    return (Action(family="mail", target=(", ".join(recipients) or line.option("--to", "-t"),)),)


_BEYOND: Final = regex(r"(?:rsync://|[\w.@-]+:)")


def copying(line: Line) -> tuple[Action, ...]:
    """Files copied to another host, or taken away from one: each place there that changes."""
    if len(line.operands) < 2 or line.has("-n", "--dry-run", "--list-only"):
        return ()
    *sources, to = line.operands
    changed = [to, *sources] if line.has("--remove-source-files") else [to]
    places = [each for each in changed if each is not None and _BEYOND.match(each)]
    return tuple(Action(family="copy", target=(each,)) for each in places)


def commanding(line: Line) -> tuple[Action, ...]:
    """`sftp HOST`: what its commands do there is not in its words; `sftp HOST:FILE TO` fetches."""
    is_telling = len(line.operands) != 1 or line.has("-h", "--help")
    return () if is_telling else (Action(family="copy", target=(None,)),)


def elsewhere(line: Line) -> tuple[Action, ...]:
    """`ssh HOST COMMAND…`: what it runs there is not known to change nothing."""
    host, words = line.operand(0), line.operands[1:]
    if not words:
        return ()
    return (Action(family="ssh", target=(host, " ".join(word or "?" for word in words))),)


# --- by name: a project's own scripts -------------------------------------------------------------

_TELLING_NAME: Final = regex(
    r"(?:^|[\W_])(deploy|release|publish|rollout|migrate)(?:[\W_]|$)", re.IGNORECASE
)
_RUNNERS: Final = (
    TASK_RUNNERS
    | SHELLS
    | {"gradlew", "mvnw", "rails", "php", "node", "python", "python3", "ruby", "perl", "tsx"}
    | {"ts-node", "manage.py", "django-admin"}
)


def by_name(line: Line) -> tuple[Action, ...]:
    """A script or a task whose name says that it deploys, releases or publishes."""
    if line.name in _RUNNERS:
        told = [word for word in line.operands[:3] if word and _TELLING_NAME.search(word)]
    else:
        told = [line.name] if _TELLING_NAME.search(line.name) else []
    only_tells = line.name in TASK_RUNNERS - PACKAGERS and line.has(*DRY_RUNS)
    if not told or line.has(*DRY) or only_tells:
        return ()
    after = (
        line.operands[line.operands.index(told[0]) + 1 :] if told[0] != line.name else line.operands
    )
    return (Action(family=f"script {name_of(told[0])}", target=tuple(after)),)
