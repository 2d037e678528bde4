"""Repeatable lines: everyday local work is; whatever sends, deploys or is not understood is not."""

import pytest

from upthread.core.outward.repeatable import places_changed

EVERYDAY = """
git status
git status --short --branch
git diff
git diff HEAD~1 --stat
git show HEAD
git add -A
git commit -m "Fix the parser"
git commit -am 'x'
git commit --amend --no-edit
git checkout -b feature/x
git stash
git -C sub status
git fetch origin
git ls-files '*.py'
git remote -v
pytest
pytest -x tests/test_a.py -k name
python -m pytest -q
.venv/bin/python -m pytest
.venv/bin/pytest -n 2
uv run pytest -q
poetry run pytest
npx jest --ci
npm test
npm run test -- --watch=false
yarn build
pnpm run typecheck
make test
make -j4 build
cargo test
go test ./...
ruff check --fix .
black src tests
mypy src
npx eslint src --fix
prettier --write src
mvn -q test
./gradlew test
dotnet build
cmake --build build
ctest --output-on-failure
pip list
npm ls --depth=0
ls -la
cat src/a.py | head -50
sed -n 1,80p src/a.py
sed -i 's/old/new/g' src/a.py
rg -n "def main" src
find . -name '*.py' | xargs wc -l
mkdir -p build/out && cp a.txt build/out/
rm -rf build
echo hello > x.txt
cd sub && pytest 2>&1 | tail -5
bash -lc 'git status && pytest'
PYTHONPATH=src CI=1 timeout 60 pytest -q
export DEBUG=1; pytest
for f in *.py; do wc -l "$f"; done
if [ -f x ]; then cat x; else echo none; fi
awk '{print $1}' a.txt
gh pr view 3
kubectl -n web get pods
docker ps -a
node --version
command -v node
diff <(sort a) <(sort b)
which python && python --version
""".strip().splitlines()

COMMIT = """git commit -m "$(cat <<'EOF'
Fix it

With a body.
EOF
)" """

OUTWARD_OR_NOT_UNDERSTOOD = """
[[ -v 'a[$(./c.sh)]' ]]
test -v 'a[$(./c.sh)]'
printf -v 'a[$(./c.sh)0]' x
x='a[$(./c.sh)0]'; [[ $x -eq 1 ]]
[[ $(cat n) -eq 1 ]]
[[ 'a[$(./c.sh)0]' -eq 1 ]]
echo $((x + 1))
declare -i y='a[$(./c.sh)0]'
read 'a[$(./c.sh)0]' <<< x
unset 'a[$(./c.sh)]'
PS4='$(./c.sh)'; set -x; true
X=./c.sh make -e build
npm run build --script-shell ./c.sh
nohup frob
git push
git -c alias.x='!git push' x
git rebase -x 'git push' main
git rebase --exec 'git push' main
git fetch ext::sh
git fetch --upload-pack='git push' .
git submodule foreach git push
git log --output=x
git $VERB
$(echo git) push
`echo git` push
psql -c 'insert into a values (1)'
base64 -d x | sh
cat x | bash
python -c 'x'
python x.py
python pytest
python -m http.server
node -e 'x'
echo x > /dev/tcp/host/80
cat < /dev/tcp/host/80
docker push x
curl https://host
wget host
kubectl apply -f x
kubectl delete get
ssh host ls
sudo ls
sh x.sh
./x.sh
bash -c 'git push'
bash -c "$X"
source x.sh
. x.sh
eval "git push"
git() { command git push; }; git status
alias git='git push'
PATH=.:$PATH pytest
GIT_SSH=./x git fetch
export BASH_ENV=x; bash -lc ls
env PATH=. pytest
env -S 'git push'
LD_PRELOAD=./x.so ls
find . -exec git push ;
find . -name x -delete
xargs git < refs
echo push | xargs git
sort --compress-program=./x a
sed -i 's/a/b/e' x
sed -i '1e git push' x
sed 'w x' a
awk 'BEGIN { system("git push") }'
awk -f x.awk a
cmake -P x.cmake
cmake --build build --target deploy
go test -exec ./x ./...
go run x.go
cargo run
cargo --config x test
cargo publish
rm $X
cd $X
cd
cd -
cp a $X
echo x > $X
echo "$(git push)"
cat <(git push)
cat <<EOF | bash
git commit -m "$(git push)"
git status; git push
git status && (git push)
if true; then git push; fi
git push &
git push 'unfinished
make
make -f x.mk test
make test SHELL=./x
just X=y
npm
npm run
npm publish
npm exec x
uv run
timeout 5 env
exec 3>x
make test > log deploy
cat a > /dev/tcp/host/80 b
make -C deploy test deploy
tox -erelease test
ctest -D Experimental
bazel test --run_under=./x :all
dotnet build -t:Publish
GOFLAGS=-toolexec=./x go test
CC=./x make test
echo >&-
git
./evil/pytest
xargs
kubectl
gh pr create
""".strip().splitlines()

DEPLOYING = """
make deploy
npm run release
./gradlew publish
mvn deploy
tox -e release
goreleaser release
""".strip().splitlines()


@pytest.mark.parametrize("line", [*EVERYDAY, COMMIT])
def test_everyday_local_work_is_repeatable(line: str) -> None:
    assert places_changed(line) is not None


@pytest.mark.parametrize("line", [*OUTWARD_OR_NOT_UNDERSTOOD, *DEPLOYING, "", "git\0 x"])
def test_what_sends_or_is_not_understood_is_not_repeatable(line: str) -> None:
    assert places_changed(line) is None


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("echo a > b 2> c", ("b", "c")),
        ("echo a >| b", ("b",)),
        ("cat a < b > /dev/null 2>&1", ()),
        ("cat <<'E' > b\nx\nE", ("b",)),
        ("cd a && rm b ~/c /d", ("a", "a/b", "~/c", "/d")),
        ("(cd a && ls); rm b", ("a", "b")),
        ("cd a; cd b; touch c", ("a", "a/b", "a/b/c")),
        ("cp a b c; uniq d e; tree -o f", ("c", "e", "f")),
        ("gcc -o out x.c", ("out",)),
        ("git -C a status", ("a",)),
        ("make -C a test", ("a",)),
        ("cmake -B a", ("a",)),
        ("cat a | tee b", ("b",)),
        ("bash -c 'cd a; rm b'", ("a", "a/b")),
        ("sed -i s/a/b/ x y", ("x", "y")),
    ],
)
def test_the_paths_that_a_line_enters_or_changes_are_named(line, places):
    assert places_changed(line) == places


def test_shells_within_shells_are_read_to_a_limit():
    import shlex

    line = "ls"
    for _ in range(3):
        line = shlex.join(["sh", "-c", line])
    assert places_changed(line) == ()
    assert places_changed(shlex.join(["sh", "-c", line])) is None
