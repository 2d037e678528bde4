"""What a call does beyond this machine, read from its command, its title or its tool. Pure.

The kind is no part of it: that is the agent's word, and a push is the same under another one.

Most programs are a row of a table: the verbs with which they act. What else a program was given
tells on what it acts. A program that is not here reaches nobody, but for a script whose name says
so. The words are those of each program's documentation, as seen in git 2.51, gh 2.83, curl 8.17,
npm 11, kubectl 1.34, Terraform 1.14, OpenSSH 9.2 and rsync 3.4.

Two wordings of one action are equal here. What a wording leaves out is None: `git push` may mean
any remote, so it may be the same as a push to one. To look once too often costs a question; to look
once too seldom does the action twice.

With what a person may ask whether it was done is words only, never run: commands that change
nothing, in the project's own directory, and only about names of the plainest form, since the words
are an agent's and somebody is to type them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from upthread.core.names import folded, rows_by_name
from upthread.core.outward.shell_commands import (
    SHELLS,
    ShellCommand,
    Word,
    Words,
    commands_in,
    name_of,
)
from upthread.core.shell.call_commands import COMMAND_KEYS
from upthread.core.text import command
from upthread.core.types import JsonValue


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


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
"""No option, no address, no `ext::`, no word of a shell."""

_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,199}")
_VIEWED = {
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


Actions: TypeAlias = tuple[Action, ...]


def actions_of_command(command: ShellCommand) -> Actions:
    """Return what one command does beyond this machine; empty for nothing."""
    words = _started(list(command.words))
    if words and name_of(words[0]).startswith("git-"):  # a verb of git's, as a program
        words = ["git", name_of(words[0])[4:], *words[1:]]
    name = name_of(words[0]).casefold() if words else ""
    line = _called_line(_NAMES.get(name, name), words[1:], command.directory)
    found = _READERS.get(line.name, _by_verb)(line)
    # Last: what its own words tell is closer than a name that speaks of deploying.
    return found or _by_name(line)


# --- a command's words ----------------------------------------------------------------------------


class Line(Struct, kw_only=True):
    """A command's words told apart. `operands` belong to no option, as far as that is known.

    `options` has each option's last word, empty for one without; `directory` where it runs.
    """

    name: str
    operands: list[Word] = []
    options: dict[str, Word] = {}
    directory: str | None = None

    def has(self, *names: str) -> bool:
        """Return whether one of these options is there."""
        return not self.options.keys().isdisjoint(names)

    def option(self, *names: str) -> Word:
        """Return the word of the first of these options that is there."""
        return next((self.options[name] for name in names if name in self.options), None)

    def action(self, family: str, words: Words) -> Action:
        """Return what it does, with what its options say of that, in the directory where it runs.

        A word that the shell makes others of is not known.
        """
        told = [value for name, value in self.options.items() if value and name not in _DESCRIBING]
        known = [None if word and re.search(_PATTERN, word) else word for word in (*words, *told)]
        return Action(family=family, words=tuple(known), place=self.directory)


DRY = frozenset(
    """
    --dry-run -n --dryrun --check --diff --help -h --list --list-only --just-print --recon --sql
    """.split()
)
_DESCRIBING = frozenset(
    """
    -m --message -b --body -s --subject -F --body-file --notes --notes-file -c --comment --otp
    --token --access --registry -u --username -p --password --repository --repository-url
    """.split()
)
"""The options whose word says nothing of what is acted on: two actions may differ in it."""
_PATTERN = r"[*?\[]"


def _called_line(name: str, words: Words, directory: str) -> Line:
    """Tell options from operands. An option takes the next word where `_TAKING` says so."""
    line = Line(name=name, directory=directory or None)
    taking = _TAKING.get(name, frozenset())
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            line.operands += waiting
            break
        if word is None or not word.startswith("-") or word == "-":
            line.operands.append(word)
        elif word in taking:
            line.options[word] = waiting.pop(0) if waiting else None
        elif word.startswith("--"):
            option, _, value = word.partition("=")
            line.options[option] = value
        elif word[:2] in taking:
            line.options[word[:2]] = word[2:]
        else:
            # Both ways to read it: `-nv` is two short options, or one long option with one dash.
            line.options |= {f"-{letter}": "" for letter in word[1:]} | {word: ""}
            if f"-{word[-1]}" in taking:
                line.options[f"-{word[-1]}"] = waiting.pop(0) if waiting else None
    return line


def _started(words: list[Word]) -> list[Word]:
    """Return the words from the program on that `uv run`, `npx` and the like start."""
    while words and (verbs := _STARTED_BY.get(name_of(words[0]))) is not None:
        rest = words[1:]
        if name_of(words[0]).startswith("py"):
            # `python -I -m twine upload`: the module is the program; else the script is.
            rest = (
                rest[rest.index("-m") + 1 :] if "-m" in rest else rest if "-c" not in rest else []
            )
        elif rest[:1] and rest[0] in verbs:
            rest = rest[1:]
        elif "" not in verbs:
            break
        while rest and (rest[0] or "").startswith("-"):
            rest = rest[1:]
        if not rest:
            break
        words = rest
    return words


_STARTED_BY = rows_by_name(
    ("python python3 py pypy3", ("",)),
    ("uv pdm hatch pipenv rye poetry", ("run",)),
    ("npx bunx uvx pipx", ("run", "")),
    ("npm pnpm yarn bun bundle mise", ("exec", "dlx", "x")),
)
"""Programs that only start another one, and after which verbs; empty where none is needed."""


# --- programs with verbs --------------------------------------------------------------------------

_TABLE = """
npm/pnpm/yarn/bun lerna jsr deno: publish unpublish deprecate dist-tag owner access
twine: upload
cargo: publish yank
gem: push yank
uv poetry flit hatch pdm dart flutter: publish
mvn/mvnw: deploy release:perform
gradle/gradlew: publish publishPlugins uploadArchives
dotnet nuget: push
vsce ovsx semantic-release goreleaser: publish release
docker/podman/nerdctl/buildah crane oras: push
skopeo: copy sync
hg jj: push
svn: commit ci
kubectl/oc/k: annotate apply autoscale cordon create delete drain edit expose label patch replace
 restart undo pause resume run scale set taint uncordon exec
helm: install upgrade uninstall rollback delete push
terraform/tofu terragrunt: apply destroy import taint
pulumi: up update destroy import
fly/flyctl netlify firebase serverless/sls cdk sam wrangler railway sst eb cap dokku convex amplify
 copilot render kamal vercel: deploy up destroy down promote rollback redeploy launch remove publish
 release secrets scale restart
alembic: upgrade downgrade stamp
manage.py/django-admin: migrate flush loaddata
rails/rake: db:migrate db:rollback db:seed
prisma: deploy push reset
flyway liquibase dbmate goose atlas migrate knex sequelize/sequelize-cli typeorm: migrate update
 rollback up down clean apply migrate:latest migrate:rollback db:migrate db:migrate:undo
 migration:run migration:revert
ansible-playbook ansible: *
aws gcloud gsutil az doctl heroku linode-cli s3cmd rclone ibmcloud oci stripe twilio gh glab hub
 tea: ?
"""
"""Which programs act, and with which verbs; a name after a slash is another one of a program.

`*` is any, and `?` any that is not known to look.
"""
_ROWS = [
    (names.split(), frozenset(verbs.split()))
    for names, _, verbs in (
        line.partition(": ") for line in _TABLE.strip().replace("\n ", " ").splitlines()
    )
]
_NAMES = {
    name: spelled.split("/")[0]
    for names, _ in _ROWS
    for spelled in names
    for name in spelled.split("/")
}
_VERBS = {spelled.split("/")[0]: verbs for names, verbs in _ROWS for spelled in names}
_LOOKS = (
    r"(alias|auth|browse|checkout|checks|co|completion|config|configure|clone|describe|diff"
    r"|download|explain|extension|get|head|help|history|info|init|list|login|logs?|ls|plan|preview"
    r"|print|read|search|set-default|show|status|tail|test|token|top|validate|version|view|wait"
    r"|watch|whoami)(-.*)?$"
)
_ACTS = (
    r"(add|apply|attach|cancel|copy|cp|create|delete|deploy|destroy|detach|disable|down|enable"
    r"|execute|import|invoke|modify|mv|patch|promote|publish|put|register|release|remove|reset"
    r"|resize|restart|restore|revoke|rm|rollback|scale|send|set|start|stop|submit|sync|terminate"
    r"|up|update|upload|upgrade|write)(-.*)?$"
)
_VERB_WITHIN = 2
_CLOUDS_VERB_WITHIN = 4
"""Among how many words the verb is: `gcloud compute instances list` has it in the third place."""


def _by_verb(line: Line) -> Actions:
    """Read a row of the table: the verb, and what else there is."""
    verbs = _VERBS.get(line.name, frozenset())
    if not verbs or not line.operands or line.has(*DRY - {"-n"}):
        return ()
    if "*" in verbs:
        return (line.action(line.name, line.operands),)
    if "?" in verbs:
        return _of_cloud(line)
    for at, word in enumerate(line.operands[:_VERB_WITHIN]):
        if word in verbs:
            return (line.action(f"{line.name} {word}", line.operands[at + 1 :]),)
        if re.match(_LOOKS, word or ""):
            break
    return ()


def _of_cloud(line: Line) -> Actions:
    """Read a cloud's or a forge's own program: what it is asked to do, unless that is to look.

    The first verb that is known decides: what follows are names.
    """
    for at, word in enumerate(line.operands[:_CLOUDS_VERB_WITHIN]):
        verb = (word or "").rpartition(":")[2]  # `heroku apps:create`
        # What is done with a release of `gh` and the logs of `aws` comes after.
        if re.match(_ACTS, verb) and (at or line.name not in _NOUN_FIRST):
            return _at_service(line, at + 1)
        if re.match(_LOOKS, verb) and (at or (line.name, word) != ("aws", "logs")):
            return ()
    return _at_service(line, 2) if len(line.operands) > 1 else ()


_NOUN_FIRST = frozenset({"aws", "gh", "glab", "hub", "tea"})


def _at_service(line: Line, verb_end: int) -> Actions:
    done, about = line.operands[:verb_end], line.operands[verb_end:]
    if {"pr", "mr"} & {*done}:
        # A pull request is that of its branch: under another title it would be the same one.
        line.options |= dict.fromkeys(("-t", "--title"), "")
    repositories = [line.options.pop(name, None) for name in ("--repo", "-R")]
    line.directory = next(filter(None, repositories), None)
    return (line.action(" ".join((line.name, *(word or "?" for word in done))), about),)


# --- git ------------------------------------------------------------------------------------------

_EVERY_REF = frozenset({"--all", "--mirror", "--branches"})


def _git(line: Line) -> Actions:
    """`git`: a push is what it pushes and where; a dry run is none, nor is what asks for help."""
    verb, *rest = line.operands or [None]
    place = line.option("-C", "--work-tree", "--git-dir") or line.directory
    if verb in {"subtree", "lfs"} and rest[:1] == ["push"]:
        verb, rest = "push", rest[1:]
    if verb in {"send-email", "request-pull"}:
        return (Action(family="mail", words=(line.option("--to"),)),)
    if verb in {"svn", "p4"} and rest[:1] in (["dcommit"], ["submit"]):
        return (Action(family="push", place=place),)
    if verb not in {"push", "send-pack"} or line.has("--dry-run", "-n", "--help", "-h"):
        return ()
    remote = rest[0] if rest else line.option("--repo")
    refs: list[Word] = list(rest[1:])
    if line.has("--tags") and not refs:
        refs = ["--tags"]
    # Git's configuration says what goes then: it may be any ref.
    if not refs or line.has(*_EVERY_REF):
        refs = [None]
    # What a remote at an address is called only git knows.
    if remote and re.search(r"[/:@\\]", remote):
        remote = None
    return tuple(_push(remote, ref, place, line) for ref in refs)


def _push(remote: Word, ref: Word, place: Word, line: Line) -> Action:
    # `+main` and `a:main` reach the same ref as `main` does.
    source, has_to, to = (ref or "").lstrip("+").rpartition(":")
    named = to.removeprefix("refs/heads/")
    is_any = "*" in named or named in {"", "HEAD", "@"}
    is_deleted = line.has("--delete", "-d") or (has_to and not source and not is_any)
    family = "delete of a ref" if is_deleted else "push"
    return Action(family=family, words=(remote, None if is_any else named), place=place)


# --- HTTP -----------------------------------------------------------------------------------------

_BODY = """
-d --data --data-raw --data-binary --data-urlencode --data-ascii -F --form --form-string -T
--upload-file --json --post-data --post-file --body-data --body-file
""".split()
_HTTP_LOOKS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_ITEM = r":=|[^=]=[^=]|@"
_LOOPBACK = r"^(?:127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])(?=$|:)"
"""This machine by another name than `localhost`."""


def _requested(method: str, urls: Words) -> Actions:
    method = method.upper()
    if method in _HTTP_LOOKS:
        return ()
    return tuple(Action(family=f"HTTP {method}", words=(_url(url),)) for url in urls or [None])


def _curl(line: Line) -> Actions:
    """A request by `curl` or `wget`: what has a body or a method of its own."""
    implied = "PUT" if line.has("-T", "--upload-file") else "POST" if line.has(*_BODY) else "GET"
    if line.has("-G", "--get"):
        implied = "GET"
    given = line.option("-X", "--request", "--method")
    if line.has("-X", "--request", "--method") and given is None:
        implied = "POST"  # one that only running it would tell
    return _requested(given or implied, line.operands)


def _httpie(line: Line) -> Actions:
    """A request by `http` or `xh`, whose fields make it a POST."""
    first = (line.operands or [None])[0] or ""
    at = 1 if first.isalpha() and first.isupper() else 0
    has_items = any(word and re.search(_ITEM, word) for word in line.operands[at + 1 :])
    return _requested(first if at else "POST" if has_items else "GET", line.operands[at : at + 1])


def _forge(line: Line) -> Actions:
    """A forge's own program, `gh` or `glab`: all that does not look, and requests of its API."""
    if line.operands[:1] != ["api"]:
        return _by_verb(line)
    has_fields = line.has("-f", "-F", "--field", "--raw-field", "--input")
    method = line.option("-X", "--method") or ("POST" if has_fields else "GET")
    return _requested(method, line.operands[1:2])


def _url(url: Word) -> Word:
    """Return an address in one spelling: a scheme, no default port, no slash at the end."""
    if not url:
        return None
    whole = url if "://" in url else f"http://{url}"
    scheme, _, rest = whole.partition("://")
    host, slash, path = rest.partition("/")
    # Who asks changes nothing of what is asked for.
    host = re.sub(r":(80|443)$", "", host.rpartition("@")[2]).casefold()
    host = re.sub(_LOOPBACK, "localhost", host)
    return f"{scheme.casefold()}://{host}{slash}{path}".partition("#")[0].rstrip("/")


# --- others ---------------------------------------------------------------------------------------

_BEYOND = r"(?:rsync://|[\w.@-]+:)"


def _docker(line: Line) -> Actions:
    """An image that is pushed, by itself or when it was built."""
    is_pushed = line.has("--push") and {"build", "bake"} & {*line.operands[:2]}
    tag = line.option("-t", "--tag")
    return (Action(family="docker push", words=(tag,)),) if is_pushed else _by_verb(line)


def _mail(line: Line) -> Actions:
    """Mail, by its recipients in any order."""
    to = [word for word in (*line.operands, line.option("--to", "-t")) if word and "@" in word]
    return (Action(family="mail", words=tuple(to)),)


def _copying(line: Line) -> Actions:
    """Files copied to another host, or taken away from one: each place there that changes."""
    if not line.operands[1:] or line.has("-n", "--dry-run", "--list-only"):
        return ()
    changed = line.operands if line.has("--remove-source-files") else line.operands[-1:]
    places = [each for each in changed if each and re.match(_BEYOND, each)]
    return tuple(Action(family="copy", words=(each,)) for each in places)


def _ssh(line: Line) -> Actions:
    """`ssh HOST COMMAND…`: what it runs there is not known to change nothing."""
    host, *words = line.operands or [None]
    told = " ".join(word or "?" for word in words)
    return (Action(family="ssh", words=(host, told)),) if words else ()


_TELLING_NAME = r"(?i)(?:^|[\W_])(deploy|release|publish|rollout|migrate)(?:[\W_]|$)"
_RUNNERS = SHELLS | {
    *"""
    act ant bun bundle cap composer deno fab gmake gradle grunt gulp inv invoke just lefthook mage
    make manage.py mise mix moon mvn ninja nix node nox npm nx perl php pnpm pre-commit python
    python3 rails rake ruby task tox ts-node tsx turbo yarn
    """.split()
}
"""Programs that run a script, or what a project calls a task, by its name."""


def _by_name(line: Line) -> Actions:
    """A script or a task whose name says that it deploys, releases or publishes."""
    words = line.operands if line.name in _RUNNERS else [line.name, *line.operands]
    named = words[:3] if line.name in _RUNNERS else words[:1]
    told = next((word for word in named if word and re.search(_TELLING_NAME, word)), None)
    if told is None or line.has(*DRY):
        return ()
    return (line.action(f"script {name_of(told)}", words[words.index(told) + 1 :]),)


_READERS = rows_by_name(
    ("git", _git),
    ("gh glab hub tea", _forge),
    ("docker", _docker),
    ("curl wget curlie", _curl),
    ("http https xh xhs", _httpie),
    ("mail mailx sendmail mutt neomutt msmtp swaks s-nail", _mail),
    ("scp rsync", _copying),
    ("ssh", _ssh),
)
"""What reads the words of a program that has no row in the table, or more than that."""

_TAKING_WORDS = f"""
git: -C -c --git-dir --work-tree --namespace -o --push-option --repo --receive-pack --exec --to
 --prefix -P
gh glab hub tea: -R --repo -t --title -b --body -F --body-file --notes --notes-file -X --method -f
 --field --raw-field --input -c --comment --subject
npm lerna: --access --registry --otp
kubectl: -n --namespace --context
docker: -t --tag -c --context -H --host
svn: -m --message -F
aws gcloud az: --region --profile --project
twine poetry uv cargo gem: -u --username -p --password --token --repository --repository-url
python python3: -c -m -W -X
curl curlie: -X --request -H --header -u --user -o --output -A --user-agent -b --cookie -c
 --cookie-jar -e --referer -m --max-time -w --write-out -x --proxy --retry --retry-delay
 --connect-timeout -K --config -E --cert --key --cacert -r --range --limit-rate -D --dump-header
 --resolve --unix-socket --oauth2-bearer --max-redirs {" ".join(_BODY)}
wget: -O --header --post-data --post-file --method -o -t --body-data --body-file -T --timeout -U
 --user --password
ssh: {" ".join(f"-{letter}" for letter in "BbcDEeFIiJLlmOoPpQRSWw")}
scp: {" ".join(f"-{letter}" for letter in "cDFiJloPSX")}
rsync: -e --rsh --backup-dir --exclude --include --log-file
"""
"""The options of each program that take the next word; another one's words are operands."""

_TAKING = {
    name: frozenset(options.split())
    for names, _, options in (
        line.partition(": ") for line in _TAKING_WORDS.replace("\n ", " ").splitlines()
    )
    for name in names.split()
}


# --- the outward actions of a call ----------------------------------------------------------------


ARGUMENTS_LEFT_OUT = frozenset({"description", "cwd", "timeout", "workdir"})
"""Arguments that differ between two calls of the same action."""

QUIET = frozenset({"-q", "--quiet", "-v", "--verbose", "--silent", "-s"})
"""Words of a command that change what is told of it, and nothing else."""

_SENDING = (
    r"(?:^|_)(add|append|approve|cancel|close|comment|commit|create|delete|deploy|dispatch|edit"
    r"|fork|insert|invite|merge|patch|post|publish|push|release|remove|reply|run|send|submit"
    r"|trigger|update|upload|write)(?:_|$)"
)
_TOOL = r"(?:mcp__)?[\w.-]{1,128}__[\w.-]{1,128}"
_BETWEEN = r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+"


def actions_of_call(title: str, arguments: JsonValue, patterns: Sequence[str] = ()) -> Actions:
    """Return what a call does beyond this machine, each action once; empty for nothing.

    `patterns` are shell patterns over the command or the title that somebody added: a call they
    match is outward whatever it is, and the same as another one with the same words.
    """
    lines = commands_of(arguments)
    # A title may be a command, in backquotes, as agents show one, or plain.
    found = [each for line in lines or (title.strip().strip("`"),) for each in _of_line(line)]
    if not lines:
        found += _of_tool(title, arguments)
    # Only where nothing else is known of it: an action by its parts is told apart more closely.
    if not found and any(
        fnmatch.fnmatchcase(text, pattern)
        for text in (title, *lines)
        if text
        for pattern in patterns
    ):
        found = [_by_words(title, arguments, lines)]
    return tuple(dict.fromkeys(found))


def commands_of(arguments: JsonValue) -> tuple[str, ...]:
    """Return the command lines in a call's arguments, under any name agents have for them."""
    if not isinstance(arguments, Mapping):
        return ()
    found = (_line_in(value) for name, value in arguments.items() if folded(name) in COMMAND_KEYS)
    return tuple(line for line in found if line)


def command_of(arguments: JsonValue) -> str:
    """Return the command line in a call's arguments; empty where there is none."""
    return next(iter(commands_of(arguments)), "")


def _line_in(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence):
        return ""
    return shlex.join(str(word) for word in value)


@lru_cache(maxsize=1024)
def _of_line(line: str) -> Actions:
    return tuple(each for command in commands_in(line) for each in actions_of_command(command))


def _of_tool(title: str, arguments: JsonValue) -> Actions:
    """A tool of a server whose name says that it changes something there."""
    tool = next(iter(title.split()), "")
    spoken = "_".join(re.split(_BETWEEN, tool)).casefold()
    # A title in words, such as `Create a file`, is no tool of a server.
    if not re.fullmatch(_TOOL, tool) or not re.search(_SENDING, spoken):
        return ()
    return (Action(family=tool, words=(_digest(arguments),)),)


def _by_words(title: str, arguments: JsonValue, lines: Sequence[str]) -> Action:
    words = [word for line in lines for each in commands_in(line) for word in each.words]
    told = " ".join(word or "?" for word in words if word not in QUIET)
    return Action(family="configured", words=(told if lines else _digest(arguments) or title,))


def _digest(arguments: JsonValue) -> str | None:
    """Return a digest of what a tool is given; None where that is not known."""
    if not isinstance(arguments, Mapping) or not arguments:
        return None
    meant = {name: value for name, value in arguments.items() if name not in ARGUMENTS_LEFT_OUT}
    # In one order: the same arguments in another one are the same action.
    canonical = json.dumps(meant, sort_keys=True, separators=(",", ":"), default=list)
    return hashlib.sha256(canonical.encode()).hexdigest()
