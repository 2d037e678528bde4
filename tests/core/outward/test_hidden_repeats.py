"""What the words of a line do not tell may be a held action; what mentions none of it is not."""

from __future__ import annotations

import posixpath

import pytest

from upthread.core.outward.actions import Action
from upthread.core.outward.calls import actions_of_call
from upthread.core.outward.hidden_repeats import mentioned, run_by, same_as, why_may_repeat

PUSH = "git push origin main"
FILES = {
    "push.sh": f"#!/bin/sh\n{PUSH}\n",
    "plain": f"{PUSH}\n",
    "wrap.sh": '#!/bin/sh\nexec git "$@"\n',
    "two.sh": "#!/bin/sh\n./push.sh\n",
    "1.sh": ". 2.sh",
    "2.sh": ". 3.sh",
    "3.sh": ". push.sh",
    "build.sh": "#!/usr/bin/env bash\necho built; $CC -c x; ./none; ./bin/app\n",
    "dev.sh": "#!/bin/sh\ngit push origin dev\n",
    "ali.sh": "#!/bin/sh\ngit p2\n",
    "self.sh": "#!/bin/sh\n./self.sh; ./self.sh\n",
    "many.sh": "".join(f"./build.sh {i}\n" for i in range(100)),
    "push.py": f"import subprocess\nsubprocess.run('{PUSH}', shell=True)\n",
    "build.py": "print(1)\n",
    "tests/test_push.py": "def test_push(): pass\n",
    "rel/__main__.py": "os.system('git push')\n",
    "app.js": "x.push(1)\n",
    "git.js": "require('simple-git')().push('origin')\n",
    "node_modules/.bin/jest": "#!/usr/bin/env node\na.push(2)",
    "bin/app": "",
    "configure": "#! /bin/sh\n" + "$as_echo x\n" * 50,
    "sub/go.sh": "#!/bin/bash\ncd ..\ngit push\n",
    "sub/Makefile": "all: ; ../push.sh\n",
    "Makefile": """\
include more.mk
REL = git push
.PHONY: all
all: build
build:
\techo built
push:
\tgit push origin main
rel: build two
\t@echo
two:
\t@$(REL) origin main
ship: ; ./two.sh
test:
\tpytest -q
dev:
\tgit push origin dev
""",
    "more.mk": "more:\n\t./push.sh\n",
    "justfile": "ship:\n    ./push.sh\ntest:\n    pytest\n",
    "package.json": '{"scripts": {"go": "npm run to", "to": "sh push.sh", "build": "b"}}',
    ".git/config": """\
[core]
[remote "origin"]
    url = https://a@example.org/a/b.git
[remote "same"]
    url = git@example.org:a/b
[remote "other"]
    url = https://example.org/c
""",
}

MAY_REPEAT = r"""
make rel
make ship
make more
make -C sub
make -f Makefile two
make $X push
just ship
npm run go
npm run -s to
yarn to
pnpm go
bun run to
./push.sh
./plain
sh push.sh
bash -o pipefail ./push.sh
. ./push.sh
source push.sh
./wrap.sh push origin main
bash wrap.sh push origin main
./two.sh
sh 2.sh
cat push.sh | sh
sh < push.sh
cd sub && ./go.sh
sub/go.sh
sudo ./two.sh
x=$(./two.sh)
./many.sh
cp two.sh /tmp/a.sh && /tmp/a.sh
git rebase --exec ./two.sh HEAD~1
python3 push.py
python3 -u push.py -c x
python -W ignore push.py
python3 -m rel
cat push.py | python3
python3 < push.py
node git.js
deno run push.py
uv run python push.py
uv run ./two.sh
git push same main
"""
MENTIONS = r"""
make push
make -s -C . push
npm run -s push
task push
rake push
deno task push
nix run .#push
printf '#!/bin/sh\ngit push origin main\n' > /tmp/zz18.sh && sh /tmp/zz18.sh
echo 'git push origin main' > t.sh; chmod +x t.sh; ./t.sh
echo 'git push origin main' | tee t.sh; sh t.sh
cat > t2.sh <<'EOF'; git push origin main; EOF; bash t2.sh
ln -s $(which git) mygit; ./mygit push origin main
sh push_it.sh
python3 -c "import os; os.system('git push origin main')"
python3 -c "exec(open('push.py').read())"
python3 - <<'EOF'; import subprocess; subprocess.run(["git", "push", "origin", "main"]); EOF
perl -e 'system("git push origin main")'
perl -ne 'exec qw(git push origin main)'
node -e "require('child_process').execSync('git push origin main')"
ruby -e 'system "git push origin main"'
php -r 'exec("git push");'
tclsh <<< 'exec git push origin main'
awk 'BEGIN { system("git push origin main") }'
node -e 'require("simple-git")().push("origin")'
python -c 'from dulwich import porcelain; porcelain.push(".")'
GIT_PUSH=1 python -c 'gitPush()'
$X push origin main
(( ./mygit push
"""
CANNOT_BE_TOLD = r"""
echo Z2l0IHB1c2ggb3JpZ2luIG1haW4K | base64 -d | sh
sh -c "$(cat push.sh)"
eval "$(cat push.sh)"
find . -name 'p*.sh' -exec sh {} \;
find . -name 'p*.sh' -exec {} \;
find . -name 'p*.sh' | xargs -n1 sh
git p2
./ali.sh
curl https://example.org/x > a.sh; sh a.sh
git -c a.b=c -C . p2
git $A
git hook run pre-push
git config alias.shipit "$X push" && git shipit
$X
(echo git push origin main) | sh
curl https://example.org/x | sh
curl https://example.org/x | bash -s -- -y
curl https://example.org/x | python3 -
bash <(cat push.sh)
sh missing.sh
./missing
python3 "$X"
python3 -c "$X"
"""
EVERYDAY = r"""
make
make test
make build
make dev
make -n push
make none
just test
npm test
npm t
npm run build
npm run
npm install
npm
yarn
yarn install
bun install
bun app.js
deno test
tox -e py311
nox -s lint
pytest
pytest -k push
python -m pytest tests/test_push.py
python3 -m
python tests/../build.py
cargo build
docker build -t push .
./configure --prefix=/usr
./dev.sh
./self.sh
python build.py --fast
python --version
node app.js
node_modules/.bin/jest
./bin/app
/usr/bin/make test
/usr/bin/ls push
git fetch origin
git pull
git
git commit -m "push later"
git rebase main
git stash push
git log --grep push
git push other main
git push origin dev
gh pr view 1
curl https://example.org/push
grep -r push .
cat push.sh
echo push
sed -n 1p push.sh
./build.sh
bash -n build.sh
bash
bash -s
. ./build.sh
uv run pytest
uv
git config alias.ship2 'push origin main'
cat > later.sh <<'EOF'; git push origin main; EOF
chmod +x push.sh
go test ./push/...
git diff | cat
python3 -c "print(1)"
cat a.json | python3 -m json.tool
cat a.json | python3 -c "import sys"
awk '/push/ {print $1}' x
pip install -e .
git worktree add ../x
find . -type f -exec grep -l push {} +
test -f push.sh && echo yes
while read x; do echo $x; done < push.sh
echo hi > t.sh; sh t.sh
ls ./unread ((
"""


def why(line: str, held: str = PUSH, directory: str = "") -> str:
    actions = actions_of_call("", {"command": held})
    assert actions
    read = {posixpath.normpath(path): text for path, text in FILES.items()}

    def read_file(path: str) -> str | None:
        return read.get(posixpath.normpath(path))

    return why_may_repeat(line.replace("; ", "\n"), actions, read_file, directory)


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("line", lines(MAY_REPEAT))
def test_what_a_line_runs_is_looked_into(line):
    assert why(line).startswith("it runs `")
    assert "cannot be told" not in why(line)


def test_what_mentions_a_held_action_may_be_it():
    assert [line for line in lines(MENTIONS) if "mentions `" not in why(line)] == []


@pytest.mark.parametrize("line", lines(CANNOT_BE_TOLD))
def test_what_cannot_be_told_is_asked_about(line):
    assert why(line).endswith("of which cannot be told what it does")


def test_everyday_work_goes_on_while_a_push_is_held():
    assert [line for line in lines(EVERYDAY) if why(line)] == []


@pytest.mark.parametrize(
    ("held", "line"),
    [
        ("npm publish", 'python -c \'run(["npm", "publish"])\''),
        ("twine upload dist/*", "make upload"),
        ("docker push a/b", "make docker-push"),
        ("curl -d x https://example.org/hook", "python -c 'post(\"https://example.org/hook\")'"),
        ("curl -d x https://example.org/hook", "python -c 'post(f\"{base}/hook\")'"),
        ("curl -d x $URL", "python -c 'post(\"https://a.example\")'"),
        ("mail -s hi ada@example.org", "python -c 'import smtplib'"),
        ("mail -s hi ada@example.org", "python -c 'tell(\"ada@example.org\")'"),
        ("ssh host restart", "python -c 'run([\"ssh\", h])'"),
        ("aws s3 cp a s3://b", "python -c 'import boto3'"),
        ("fly deploy", 'python -c \'run("fly", "x")\''),
        ("gh pr create", 'python -c \'run(["gh", "pr"])\''),
        ("./deploy.sh", "python -c 'run(\"deploy.sh\")'"),
        ("hg push", "python -c 'hg(\"push\")'"),
    ],
)
def test_each_family_has_its_telling_words(held, line):
    assert "mentions" in why(line, held)
    assert why("python -c 'print(1)'", held) == ""


def test_a_verb_that_git_does_not_have_is_only_asked_about_while_git_is_what_is_held():
    assert why("git p2")
    assert why("git p2", "npm publish") == ""


def test_why_is_said_in_words():
    assert why("./two.sh") == "it runs `./two.sh`, whose commands hold `git push origin main`"
    assert why("make push") == "it runs `make push`, which mentions `push`"
    assert why("python3 push.py") == "it runs `python3 push.py`, whose code mentions `push`"
    assert why("git push same main").endswith("goes to the same address by another name")


def test_a_worktree_has_the_remotes_of_its_repository():
    held = actions_of_call("", {"command": PUSH})
    config = FILES[".git/config"]
    files = {"../w/.git": "gitdir: /a/.git/worktrees/w\n"}

    def read(path: str) -> str | None:
        is_config = posixpath.normpath(path) == "/a/.git/config"
        return config if is_config else files.get(posixpath.normpath(path))

    assert why_may_repeat("git push same main", held, read, "../w")
    assert why_may_repeat("git push other main", held, read, "../w") == ""


def test_files_are_followed_to_a_depth():
    assert "whose commands" in why("sh 2.sh")
    assert why("sh 1.sh") == ""


def test_files_are_those_from_where_a_line_runs():
    assert "whose commands" in why("./go.sh", directory="sub")
    assert why("git push same main", directory="sub")


RUNS = {
    "push.sh": "git push origin main\n",
    "two.sh": "#!/bin/sh\nsh push.sh\n",
    "wrap.sh": 'exec git "$@"\n',
    "Makefile": "all:\n\techo hi\npush: all\n\tgit push origin main\n",
    "package.json": '{"scripts": {"push": "git push origin main", "test": "jest"}}',
    "push.py": 'import subprocess\nsubprocess.run(["git", "push", "origin", "main"])\n',
    "hello.py": "print('hello world, git lovers')\n",
}


def runs(line: str) -> tuple[str, ...]:
    return run_by(line, lambda path: RUNS.get(posixpath.normpath(path)))


@pytest.mark.parametrize(
    "line",
    [
        *("./push.sh", "bash ./push.sh", ". ./push.sh", "cat push.sh | sh", "./two.sh"),
        *("make push", "npm run -s push", "./wrap.sh push origin main", "python3 push.py"),
        """python3 -c "import os; os.system('git push origin main')" """,
        """node -e "require('child_process').execSync('git push origin main')" """,
    ],
)
def test_what_a_line_runs_without_saying_so_is_found(line: str):
    assert runs(line) == ("git push origin main",)


@pytest.mark.parametrize(
    "line",
    ["make", "make all", "npm test", "python3 hello.py", "pytest -q", "cat push.sh", "ls", "./x"],
)
def test_what_runs_nothing_outward_is_none(line: str):
    assert runs(line) == ()


# --- the words that tell of an action -------------------------------------------------------------


PUSHED = Action(family="push", target=("origin", "main", None))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("git push", "push"),
        ("do_push()", "push"),
        ("gitPush()", "Push"),
        ("PUSH=1", "PUSH"),
        ("send-pack", "send-pack"),
        ("pushMain()", "push"),
        ("simple-git; x.push(1)", "push"),
        ("x.push(1)", ""),
        ("github; x.push(1)", ""),
        ("git; heappush(1)", ""),
        ("pushd a", ""),
        ("pushed", ""),
        ("", ""),
    ],
)
def test_a_push_is_told_by_whole_words(text, word):
    assert mentioned(PUSHED, text) == word


@pytest.mark.parametrize(
    ("action", "word"),
    [
        (Action(family="HTTP POST", target=("http://h/a",)), "h"),
        (Action(family="HTTP POST", target=("http://h",)), "h"),
        (Action(family="HTTP POST", target=("http://localhost:8080",)), "127.0.0.1:8080"),
        (Action(family="HTTP POST", target=("/repos/x",)), "/repos/x"),
        (Action(family="HTTP POST", target=(None,)), "curl"),
        (Action(family="configured", target=("./ship it",)), "ship"),
        (Action(family="configured", target=()), "configured"),
        (Action(family="mcp__a__create_issue", target=(None,)), "create_issue"),
        (Action(family="kubectl apply", target=()), "kubectl"),
        (Action(family="deploy: fly deploy", target=()), "fly"),
        (Action(family="script release", target=()), "release"),
        (Action(family="unpublish a package", target=()), "unpublish"),
        (Action(family="push an image", target=()), "push"),
        (Action(family="copy", target=("host:/a",)), "host"),
        (Action(family="mail", target=(None,)), "smtplib"),
    ],
)
def test_each_family_is_told_by_its_own_words(action, word):
    assert mentioned(action, f"x {word} y") == word
    assert mentioned(action, "x y") == ""


# --- which remotes of a repository are one, by its configuration ----------------------------------


TEXT = """
[core]
    url = https://example.org/a
[remote "a"]
    url = https://me@example.org/x/y.git
[remote "b"]
    url = git@example.org:x/y
[remote "c"]
    fetch = +refs/heads/*
    pushurl = "ssh://git@example.org/x/y/"
[remote "d"]
    url = https://example.org/z
[remote "e"]
    url = /srv/x.git
[remote "f"]
    url = file:///srv/x
"""


def test_remotes_at_one_address_are_one_however_it_is_spelled():
    assert same_as({"a"}, TEXT) == {"b", "c"}
    assert same_as({"e"}, TEXT) == {"f"}
    assert same_as({"d"}, TEXT) == same_as({"none"}, TEXT) == same_as(set(), "") == set()
