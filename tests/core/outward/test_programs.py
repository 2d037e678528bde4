"""Which commands reach beyond this machine, and which of them are the same action."""

import itertools
from functools import cache

import pytest

from upthread.core.outward.calls import Action, actions_of_call, actions_of_command
from upthread.core.outward.repeatable import places_changed
from upthread.core.outward.shell_commands import ShellCommand

PUSH = "git push origin main"


@cache
def actions(command: str) -> tuple[Action, ...]:
    return actions_of_call("", {"command": command})


def may_be(one: str, other: str) -> bool:
    return any(a.may_be(b) for a in actions(one) for b in actions(other))


def lines_of(text: str) -> list[str]:
    return [each.replace("; ", "\n") for each in text.strip().splitlines()]


# --- a push ---------------------------------------------------------------------------------------

WAYS_TO_SAY_GIT = (
    *("git", "/usr/bin/git", "command git", "env git", "env A=b git", "sudo git", "nohup git"),
    *("git -c a.b=c", "git --no-pager", "time git", "timeout 60 git", "nice -n 5 git", '"git"'),
    *("GIT_TRACE=1 git", "exec git", "stdbuf -oL git"),
)
WAYS_TO_SAY_PUSH = (
    *("push origin main", "push  origin   main", "push -q origin main", "push origin main -q"),
    *("push --force origin main", "push origin +main", "push origin HEAD:main"),
    *("push 'origin' main", "push origin refs/heads/main", "push -u origin main", "push origin"),
    *(
        "push origin main:refs/heads/main",
        "push",
        "push origin HEAD",
        "push -o ci.skip origin main",
    ),
    *("push --force-with-lease=main origin main", "push origin $B", "push -- origin main"),
)
AROUND = (
    *("{}", "sh -c '{}'", 'bash -lc "{}"', "cd . && {}", "({})", "{} 2>&1 | tail -3", "true; {}"),
    *("{} || true", "if true; then {}; fi", 'echo "$({})"', "{} &"),
    *("eval {}", "set -e\n{}\n", "f() {{ {}; }}; f", "sh -c \"sh -c '{}'\"", "! {}"),
)
SAID_IN_THE_LINE = r"""
git push origin :
git push origin "refs/heads/*:refs/heads/*"
git push origin refs/heads/*
git push origin --all
git push https://h/r.git main
git subtree push --prefix x origin main
git lfs push origin main
env -i PATH=$PATH git push origin main
sh -c "git push origin $B"
REMOTE=origin BRANCH=main; git push "$REMOTE" "$BRANCH"
echo main | xargs -n1 git push origin
find . -maxdepth 0 -exec git push origin main \;
git rebase --exec 'git push origin main' HEAD~1
git send-pack origin main
git-push origin main
/usr/lib/git-core/git-push origin main
flock /tmp/l git push origin main
watch -n 100 git push origin main
parallel git push origin ::: main
for b in main; do git push origin $b; done
while read b; do git push origin $b; done <<< main
x=$(git push origin main 2>&1); echo $x
cat <(git push origin main)
$'git' push
"""
PUT_TOGETHER = r"""
G=git; $G push origin main
A="push origin main"; git $A
git ${X:-push} origin main
CMD='git push origin main'; eval "$CMD"
export X=push; sh -c "git $X origin main"
A=git; C=push; sh -c "$A $C"
p() { git "$@"; }; p push origin main
function p { git "$1" "$2" main; }; p push origin
set -- push origin main; git "$@"
bash -c 'git "$@"' _ push origin main
git config alias.shipit 'push origin main' && git shipit
git -c alias.z='push origin main' z
git -c alias.z='!git push origin main' z
shopt -s expand_aliases; alias gp='git push'; gp origin main
printf 'git push origin %s\n' main | bash
bash <<'EOF'; git push origin main; EOF
cat <<'EOF' | bash; git push origin main; EOF
bash <<< 'git push'
echo -e "cd .\ngit push origin main" | sh
echo 'git push origin main' | bash | cat
echo 'git push origin main' | sudo bash -s
echo push origin main | xargs git
git remote | xargs -I {} git push {} main
$(which git) push origin main
`which git` push origin main
env -S "git push origin main"
env --split-string='git push' origin main
git rebase --exec='git push origin main' HEAD~1
git bisect run git push origin main
git submodule foreach --recursive 'git push origin main'
trap 'git push origin main' EXIT; true
script -qc 'git push origin main' /dev/null
flock /tmp/l -c 'git push origin main'
npm exec -c "git push origin main"
"""
WORDINGS = [
    *(f"{git} {PUSH[4:]}" for git in WAYS_TO_SAY_GIT),
    *(f"git {push}" for push in WAYS_TO_SAY_PUSH),
    *(around.format(PUSH) for around in AROUND),
    *lines_of(SAID_IN_THE_LINE),
    *(
        around.format(f"{git} {push}")
        for git, push, around in itertools.product(
            WAYS_TO_SAY_GIT[:5], WAYS_TO_SAY_PUSH[:7], AROUND[:6]
        )
        if '"' not in around or '"' not in git
        if "'" not in around or "'" not in push
    ),
]
BRANCHES = ("dev", "release/1", "v2", "main2", "feature/x", "mains", "Main")
REMOTES = ("upstream", "backup", "origin2", "heroku")
NOT_THE_SAME = [
    *(f"git push origin {branch}" for branch in BRANCHES),
    *(f"git push {remote} main" for remote in REMOTES),
    *(f"git push {remote} {branch}" for remote in REMOTES for branch in BRANCHES),
    *(f"git push origin main:{branch}" for branch in BRANCHES),
    *lines_of(
        r"""
git push origin --delete main
git push origin :main
git push --tags origin
git push origin tag v1
git push --dry-run origin main
git push -n origin main
git push --help
git pushd
echo git push origin main
grep -r 'git push' .
git commit -m 'git push origin main'
git log --grep=push
git help push
man git-push
git stash push
# git push origin main
printf 'git push\n' > todo
git config alias.p push
git fetch origin main
git branch main
git tag push
git add push
git -c push=x status
git -C push status
git --git-dir push status
pushd main
npm publish
docker push a/b:1
twine upload dist/*
git -c alias.z=status z
G=git; $G status
echo status | xargs git
B=push; echo $B origin main
git remote add o2 /x; git push o3 main
find . -name push.sh
find . -exec grep push {} +
git-status
"""
    ),
]


def test_a_push_is_the_same_however_it_is_worded():
    assert [wording for wording in WORDINGS if not may_be(wording, PUSH)] == []


def test_a_push_that_is_put_together_by_the_line_is_not_repeatable():
    assert [line for line in lines_of(PUT_TOGETHER) if places_changed(line) is not None] == []


def test_another_action_is_not_taken_for_the_push():
    assert [other for other in NOT_THE_SAME if may_be(other, PUSH)] == []


def test_a_push_from_another_directory_is_another_one_where_both_say_so():
    assert not may_be("cd a && git push", "cd b && git push")
    assert not may_be("git -C a push", "git -C b push")
    assert not may_be("cd a; cd c; git push", "cd a; git push")
    assert may_be("cd /a/ && git push", "git -C /a push")
    assert may_be("cd a && git push", "git push")


def test_a_word_that_is_not_known_may_be_any():
    (unknown,) = actions_of_command(ShellCommand(words=("git", "push", "origin", None)))
    (main,), (dev,) = actions(PUSH), actions("git push origin dev")
    assert unknown.may_be(main)
    assert unknown.may_be(dev)
    assert not main.may_be(dev)
    assert may_be("git push $R main", "git push origin $B")


def test_an_action_is_told_with_what_is_known_of_it():
    (push,) = actions("git push origin HEAD:main")
    assert push.in_words == "push origin main"


# --- other programs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wording",
    [
        *("curl -X POST http://h/{}", "docker push a/b:{}", "kubectl apply -f {}.yaml"),
        *("./deploy.sh stage{}", "mail -s x user{}@h", "gh pr merge {}", "scp a host{}:/b"),
        *("make deploy-{}", "gh issue create --title {}", "ssh host{} restart"),
        *("aws s3 cp a s3://b/{}", "npm publish packages/{}", "gh pr merge {} --body x"),
        *("kubectl apply -f a.yaml --context {}", "fly deploy --app {}"),
    ],
)
def test_actions_of_one_program_on_other_things_are_not_the_same(wording: str):
    for one, other in itertools.combinations([wording.format(i) for i in range(4)], 2):
        assert actions(one)
        assert not may_be(one, other), (one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("curl -X POST http://h/a", "curl http://h/a -d x=1 -s"),
        ("curl -d @f https://h:443/a/", "wget --post-data=x https://h/a"),
        ("curl -XPOST h/a", "http POST h/a x=1"),
        ("curl -sSX POST h/a", "curl -X POST h/a"),
        ("curl -d x http://127.0.0.1:8080/a", "curl -d x localhost:8080/a"),
        ("curl -d x http://[::1]/a", "curl -d x http://0.0.0.0/a"),
        ("curl --json '{}' h/a", "xh h/a x=1"),
        ('curl -X "$M" h/a', "curl -d x h/a"),
        ("curl --url h/a -d x", "curl -d y h/a"),
        ("curl -T file h/a", "curl -X PUT h/a"),
        ("curl -d x ''", "curl -d x h/a"),
        ("npm publish", "pnpm publish --access public --no-git-checks"),
        ("npm publish --otp 1", "npm publish --otp 2"),
        ("uv run twine upload dist/*", "python3 -I -m twine upload -r pypi dist/a"),
        ("poetry run twine upload dist/a", "pipx run twine upload dist/a"),
        ("docker push a/b:1", "docker image push a/b:1"),
        ("docker buildx build --push -t a/b:1 .", "podman push a/b:1"),
        ("gh pr create --title A --body B", "gh pr create --title C --fill"),
        ("gh release create v1 --notes y", "gh release create v1 --notes x"),
        ("gh api -X POST /x", "gh api /x -f a=b"),
        ("kubectl apply -f a.yaml", "k apply --filename=a.yaml"),
        ("terraform apply", "tofu apply -auto-approve"),
        ("fly deploy", "flyctl deploy --app x"),
        ("python manage.py migrate", "./manage.py migrate"),
        ("./deploy.sh", "bash deploy.sh"),
        ("mail -s hi a@b c@d", "mail c@d a@b -s hello"),
        ("rsync -a x h:/y", "rsync -aze 'ssh -p 22' --exclude .git --bwlimit 9 x h:/y"),
        ("scp x h:/y", "scp -P 22 -l 9 -i key -o A=b x h:/y"),
        ("scp x h:/y", "rsync -a x h:/y"),
        ("rsync --remove-source-files h:/x .", "rsync -a --remove-source-files h:/x /there"),
        ("ssh h restart", "ssh -p 22 -W a:1 -b ::1 -P tag -i key h restart"),
        ("jj git push", "jj git push"),
        ("hg push", "hg push"),
        ("svn commit -m x", "svn commit -m y"),
        ("git svn dcommit", "git svn dcommit"),
        ("git send-email --to=a@b x.patch", "git send-email --to a@b x.patch"),
        ("skopeo copy a b", "skopeo copy a b"),
        ("rake db:migrate", "bundle exec rake db:migrate"),
        ("ansible-playbook site.yml", "ansible-playbook -i inv site.yml"),
        ("npm run deploy", "npm run deploy"),
        ("npx prisma migrate deploy", "prisma migrate deploy"),
        ("npm dist-tag add a@1 latest", "npm dist-tag add a@1 latest"),
    ],
)
def test_one_action_in_two_wordings_is_the_same(one: str, other: str):
    assert may_be(one, other)


REACHES_NOBODY = """
curl http://h
curl -G -d a=b http://h
http h/a
npm install
npm publish --dry-run
docker build -t x .
docker ps
gh
gh pr
gh pr view 1
gh auth status
gh api /x
gh alias set publish x
kubectl get pods
kubectl -n apply get pods
kubectl apply -f x --dry-run=client
kubectl rollout status d/x
terraform apply --help
aws
aws s3 ls
aws configure set region here
aws s3 cp a b --dryrun
gcloud run services list
az vm show --name delete-me
alembic upgrade head --sql
helm list
python -m pytest
python -c deploy
cat deploy.md
scp a b
rsync -n a h:b
rsync -a h:b .
sftp h:/file here
ssh h
ssh -p 22 h
uv run
npx -y
./deploy.sh --dry-run
make --just-print deploy
make -n deploy
twine check dist/*
git svn fetch
sh -c
eval
env
timeout 5
cd
sh script
bundle exec
nobody-knows-it push
"""


@pytest.mark.parametrize("command", ["", "#", *REACHES_NOBODY.strip().splitlines()])
def test_what_reaches_nobody_is_no_action(command: str):
    assert actions(command) == ()


@pytest.mark.parametrize(
    "command",
    [
        "gcloud run deploy test-service",
        "gcloud functions deploy list",
        "aws ecs update-service --cluster x --service get-user",
        "aws logs put-log-events --log-group-name x",
        "aws lambda invoke --function-name status out.json",
        "az vm delete --name plan",
        "stripe charges refund",  # a verb that nobody knows here may do anything
        "heroku apps:create view",
        "kubectl rollout restart d/x",
        *("ant deploy", "ninja release", "mage release", "make deploy", "bash -l deploy.sh"),
    ],
)
def test_what_acts_is_one_action_whatever_the_thing_is_called(command: str):
    assert len(actions(command)) == 1
