"""Which programs reach beyond this machine, and how their words are told apart. Pure.

A program that is not here reaches nobody, but for a script whose name says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from upthread.core.outward.actions import Action
from upthread.core.outward.families import (
    BODY,
    Line,
    Read,
    acting,
    always,
    by_name,
    cloud,
    commanding,
    copying,
    elsewhere,
    httpie,
    image,
    kubectl,
    plain,
    read_curl,
    read_gh,
    read_git,
    read_mail,
    read_npm,
    uploading,
)
from upthread.core.outward.nested_commands import Word, name_of
from upthread.core.outward.shell_commands import ShellCommand


def actions_of_command(command: ShellCommand) -> tuple[Action, ...]:
    """Return what one command does beyond this machine; empty for nothing."""
    words = _started(list(command.words))
    if words and name_of(words[0]).startswith("git-"):  # a verb of git's, as a program
        words = ["git", name_of(words[0])[4:], *words[1:]]
    name = name_of(words[0]).casefold() if words else ""
    read = _FAMILIES.get(name)
    line = _line(name, words[1:], command.directory)
    found = read(line) if read else ()
    # Last: what its own words tell is closer than a name that speaks of deploying.
    return found or by_name(line)


def _started(words: list[Word]) -> list[Word]:
    """Return the words from the program on that `uv run`, `npx` and the like start."""
    while (name := name_of(words[0]) if words else "") in _STARTED_BY:
        shorter = _STARTED_BY[name](words[1:])
        if shorter is None:
            break
        words = shorter
    return words


def _line(name: str, words: Sequence[Word], directory: str) -> Line:
    """Tell options from operands. An option takes the next word where `_VALUES` says so."""
    line = Line(name=name, directory=directory or None)
    taking = _VALUES.get(name, frozenset())
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            line.operands += waiting
            break
        if word is None or not word.startswith("-") or word == "-":
            line.operands.append(word)
        elif word.startswith("--") and "=" in word:
            option, _, value = word.partition("=")
            line.options[option] = value
        elif word in taking:
            line.options[word] = waiting.pop(0) if waiting else None
        elif not word.startswith("--") and word[:2] in taking:
            line.options[word[:2]] = word[2:]
        elif not word.startswith("--"):
            # Both ways to read it: `-nv` is two short options, or one long option with one dash.
            line.options |= {f"-{letter}": "" for letter in word[1:]} | {word: ""}
            if f"-{word[-1]}" in taking:
                line.options[f"-{word[-1]}"] = waiting.pop(0) if waiting else None
        else:
            line.options[word] = ""
    return line


# --- the table ------------------------------------------------------------------------------------


def _without_options(words: list[Word]) -> list[Word] | None:
    rest = words[1:] if words[:1] == ["run"] else words
    while rest and (rest[0] or "").startswith("-"):
        rest = rest[1:]
    return rest or None


def _module(words: list[Word]) -> list[Word] | None:
    """`python -I -m twine upload`: the module is the program; else the script is."""
    if "-m" in words:
        return words[words.index("-m") + 1 :] or None
    return None if "-c" in words else _without_options(words)


def _after_run(words: list[Word]) -> list[Word] | None:
    return words[1:] or None if words[:1] == ["run"] else None


def _after_exec(words: list[Word]) -> list[Word] | None:
    return words[1:] or None if words[:1] and words[0] in {"exec", "dlx", "x"} else None


_STARTED_BY: Final[Mapping[str, Callable[[list[Word]], list[Word] | None]]] = {
    **dict.fromkeys(("python", "python3", "py", "pypy3"), _module),
    **dict.fromkeys(("uv", "pdm", "hatch", "pipenv", "rye", "poetry"), _after_run),
    **dict.fromkeys(("npx", "bunx", "uvx", "pipx"), _without_options),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "bundle", "mise"), _after_exec),
}
"""Programs that only start another one, by the words that come after."""


_DEPLOYING: Final = """
deploy up destroy down promote rollback redeploy launch remove publish release secrets scale restart
--prod
""".split()
_MIGRATING: Final = """
migrate update rollback up down clean apply migrate:latest migrate:rollback db:migrate
db:migrate:undo migration:run migration:revert
""".split()


def _named(*tables: tuple[str, Read]) -> Mapping[str, Read]:
    return {name: read for names, read in tables for name in names.split()}


_FAMILIES: Final[Mapping[str, Read]] = _named(
    ("git", read_git),
    ("jj", lambda line: plain(line, "push") if line.operands[:2] == ["git", "push"] else ()),
    ("hg", lambda line: plain(line, "push") if line.operand(0) == "push" else ()),
    ("svn", lambda line: plain(line, "push") if line.operand(0) in {"commit", "ci"} else ()),
    ("gh glab hub tea", read_gh),
    ("npm pnpm yarn bun lerna jsr deno", read_npm),
    ("twine", uploading("upload")),
    ("cargo", uploading("publish", "yank")),
    ("gem", uploading("push", "yank")),
    ("uv poetry flit hatch pdm dart flutter", uploading("publish")),
    ("mvn mvnw", uploading("deploy", "release:perform")),
    ("gradle gradlew", uploading("publish", "publishPlugins", "uploadArchives")),
    ("dotnet nuget", uploading("push")),
    ("vsce ovsx semantic-release goreleaser", uploading("publish", "release")),
    ("docker podman nerdctl buildah crane oras", image),
    (
        "skopeo",
        lambda line: (
            (Action(family="push an image", target=(line.operand(2),)),)
            if line.operand(0) in {"copy", "sync"}
            else ()
        ),
    ),
    ("curl wget curlie", read_curl),
    ("http https xh xhs", httpie),
    ("kubectl oc k", kubectl),
    ("helm", acting("deploy", "install", "upgrade", "uninstall", "rollback", "delete", "push")),
    ("terraform tofu terragrunt", acting("deploy", "apply", "destroy", "import", "taint")),
    ("pulumi", acting("deploy", "up", "update", "destroy", "import")),
    ("ansible-playbook ansible", always("deploy: ansible")),
    (
        """
        fly flyctl netlify firebase serverless sls cdk sam wrangler railway sst eb cap dokku convex
        amplify copilot render kamal
        """,
        acting("deploy", *_DEPLOYING),
    ),
    (
        "vercel",
        lambda line: (
            plain(line, "deploy: vercel")
            if line.operand(0) in {None, *_DEPLOYING} or line.has("--prod")
            else ()
        ),
    ),
    (
        """
        aws gcloud gsutil az doctl heroku linode-cli s3cmd rclone ibmcloud oci stripe twilio
        """,
        cloud,
    ),
    ("alembic", acting("migrate", "upgrade", "downgrade", "stamp")),
    ("manage.py django-admin", acting("migrate", "migrate", "flush", "loaddata")),
    ("rails rake", acting("migrate", "db:migrate", "db:rollback", "db:seed")),
    ("prisma", acting("migrate", "deploy", "push", "reset")),
    (
        "flyway liquibase dbmate goose atlas migrate knex sequelize sequelize-cli typeorm",
        acting("migrate", *_MIGRATING),
    ),
    ("mail mailx sendmail mutt neomutt msmtp swaks s-nail", read_mail),
    ("scp rsync", copying),
    ("sftp", commanding),
    ("ssh", elsewhere),
)
"""What reads a program's words, by its name."""

_TAKING_WORDS: Final = f"""
git: -C -c --git-dir --work-tree --namespace -o --push-option --repo --receive-pack --exec --prefix
 -P --to --cc --from --subject
gh glab hub tea: -R --repo -t --title -b --body -B --base -H --head -F --body-file -l --label -a
 --assignee -r --reviewer -m --milestone --notes -n --notes-file --target --method -X -f --field
 --raw-field --input --jq -q --template --source-branch --project -p --name --hostname -c --comment
 --subject
npm pnpm yarn bun lerna: --tag --access --registry --otp --prefix -C --cwd -w --workspace --filter
 -F
twine poetry flit uv cargo gem dotnet nuget hatch: -r --repository --repository-url -u --username -p
 --password --token --package --index --publish-url -k --api-key -s --source --key --host
 --manifest-path --registry -c --comment
docker podman nerdctl buildah: -t --tag -f --file --platform --build-arg --target --context -c -H
 --host --label --cache-from --cache-to
curl curlie: -X --request -H --header -u --user -o --output -A --user-agent -b --cookie -c
 --cookie-jar -e --referer -m --max-time -w --write-out -x --proxy --url --retry --retry-delay
 --connect-timeout -K --config -E --cert --key --cacert -r --range --limit-rate -D --dump-header
 --resolve --unix-socket --oauth2-bearer --max-redirs {" ".join(BODY)}
python python3: -c -m -W -X
wget: -O --header --post-data --post-file --method -o -t --body-data --body-file -T --timeout -U
 --user --password
kubectl oc k: -f --filename -k --kustomize -n --namespace --context -l --selector -p --patch --type
 -o --output --replicas -c
fly flyctl heroku netlify wrangler cdk serverless sls vercel: -a --app -e --env --stage -s --site -d
 --dir -c --message -m --profile --region --token -t --config
terraform tofu terragrunt helm ansible-playbook ansible pulumi: -f --values -n --namespace --set
 --version -i -l -e --inventory --limit --extra-vars -s --stack --kube-context -u
mail mailx s-nail mutt neomutt sendmail msmtp swaks: -s -a -r -c -b -S -A -f -F -H -i --to --from
 --server --body --header
ssh: {" ".join(f"-{letter}" for letter in "BbcDEeFIiJLlmOoPpQRSWw")}
scp: {" ".join(f"-{letter}" for letter in "cDFiJloPSX")}
sftp: {" ".join(f"-{letter}" for letter in "BbcDFiJloPRSsX")}
rsync: -e --rsh -f --filter -B -T -M -@ --backup-dir --bwlimit --chmod --chown --compare-dest
 --copy-dest --exclude --exclude-from --files-from --include --include-from --link-dest --log-file
 --max-size --min-size --out-format --partial-dir --password-file --port --rsync-path --suffix
 --temp-dir --timeout
"""
"""The options of each program that take the next word; another one's words are operands."""

_VALUES: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(options.split())
    for names, _, options in (
        line.partition(": ") for line in _TAKING_WORDS.replace("\n ", " ").splitlines()
    )
    for name in names.split()
}
