"""Which commands reach beyond this machine, and which of them are the same action."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from upthread.core.outward.calls import actions_of_call
from upthread.core.outward.repeatable import places_changed

PUSH = "git push origin main"

WAYS_TO_SAY_GIT = (
    *("git", "/usr/bin/git", "command git", "env git", "env A=b git", "sudo git", "nohup git"),
    *("git -c a.b=c", "git --no-pager", "time git", "timeout 60 git", "nice -n 5 git", '"git"'),
    *("GIT_TRACE=1 git", "exec git", "stdbuf -oL git"),
)
WAYS_TO_SAY_PUSH = (
    *("push origin main", "push  origin   main", "push -q origin main", "push origin main -q"),
    *(
        "push --force origin main",
        "push origin +main",
        "push origin HEAD:main",
        "push 'origin' main",
    ),
    *("push origin refs/heads/main", "push -u origin main", "push origin main:refs/heads/main"),
    *("push origin", "push", "push origin HEAD", "push --set-upstream origin main"),
    *("push --force-with-lease=main origin main", "push -o ci.skip origin main", "push origin $B"),
)
AROUND = (
    *("{}", "sh -c '{}'", 'bash -lc "{}"', "cd . && {}", "({})", "{} 2>&1 | tail -3", "true; {}"),
    *("{} || true", "if true; then {}; fi", "bash <<'EOF'\n{}\nEOF", 'echo "$({})"', "{} &"),
    *("eval {}", "set -e\n{}\n", "f() {{ {}; }}; f", "sh -c \"sh -c '{}'\"", "! {}"),
)


SAID_IN_THE_LINE = r"""
git push origin :
git push origin "refs/heads/*:refs/heads/*"
git push origin refs/heads/*
env -i PATH=$PATH git push origin main
sh -c "git push origin $B"
REMOTE=origin BRANCH=main; git push "$REMOTE" "$BRANCH"
B=dev; git push origin $B
declare -r B=main; git push origin "HEAD:$B"
cat <<'EOF' | bash; git push origin main; EOF
echo main | xargs -n1 git push origin
find . -maxdepth 0 -exec git push origin main \;
git rebase --exec 'git push origin main' HEAD~1
git rebase -x "git push origin main" HEAD~1
git send-pack /x/r.git main
git send-pack origin main
git-push origin main
/usr/lib/git-core/git-push origin main
flock /tmp/l git push origin main
ssh-agent git push origin main
watch -n 100 git push origin main
parallel git push origin ::: main
for b in main; do git push origin $b; done
while read b; do git push origin $b; done <<< main
x=$(git push origin main 2>&1); echo $x
cat <(git push origin main)
"""


NOT_UNDERSTOOD = r"""
G=git; $G push origin main
A="push origin main"; git $A
git ${X:-push} origin main
CMD='git push origin main'; $CMD
CMD='git push origin main'; eval "$CMD"
V=push; B=main; git $V origin "$B"
export X=push; sh -c "git $X origin main"
export X=push; sh -c 'git $X origin main'
A=git; C=push; sh -c "$A $C"
p() { git "$@"; }; p push origin main
function p { git "$1" "$2" main; }; p push origin
set -- push origin main; git "$@"
bash -c 'git "$@"' _ push origin main
git config alias.shipit 'push origin main' && git shipit
git -c alias.z='push origin main' z
git -c alias.z='!git push origin main' z
shopt -s expand_aliases; alias gp='git push'; gp origin main
bash -c "alias gp='git push'; gp origin main"
printf 'git push origin %s\n' main | bash
printf '#!/bin/sh\ngit push origin main\n' | sh
echo -e "cd .\ngit push origin main" | sh
echo 'git push origin main' | bash | cat
echo 'git push origin main' | sudo bash -s
echo push origin main | xargs git
git remote | xargs -I% git push % main
git remote | xargs -I {} git push {} main
echo origin | xargs -I {} git push {} main
$(which git) push origin main
$(command -v git) push origin main
`which git` push origin main
env -S "git push origin main"
env -S"git push" origin main
env --split-string='git push' origin main
git rebase --exec='git push origin main' HEAD~1
git bisect run git push origin main
git submodule foreach git push
git submodule foreach --recursive 'git push origin main'
trap 'git push origin main' EXIT; true
script -qc 'git push origin main' /dev/null
flock /tmp/l -c 'git push origin main'
npm exec -c "git push origin main"
"""
"""A push that only running the line would tell: no such line is repeatable."""


@cache
def actions(command):
    return actions_of_call("", {"command": command})


def may_be(one, other):
    return any(a.may_be(b) for a in actions(one) for b in actions(other))


WORDINGS = [
    *(f"{git} {PUSH[4:]}" for git in WAYS_TO_SAY_GIT),
    *(f"git {push}" for push in WAYS_TO_SAY_PUSH),
    *(around.format(PUSH) for around in AROUND),
    *(each.replace("; ", "\n") for each in SAID_IN_THE_LINE.strip().splitlines()),
    *(
        around.format(f"{git} {push}")
        for git, push, around in itertools.product(
            WAYS_TO_SAY_GIT[:5], WAYS_TO_SAY_PUSH[:7], AROUND[:6]
        )
        if '"' not in around or '"' not in git
        if "'" not in around or "'" not in push
    ),
]


def test_a_push_is_the_same_however_it_is_worded():
    assert [wording for wording in WORDINGS if not may_be(wording, PUSH)] == []


BRANCHES = ("dev", "release/1", "v2", "main2", "feature/x", "gh-pages", "hotfix", "mains", "Main")
REMOTES = ("upstream", "backup", "fork", "origin2", "heroku")
NOT_THE_SAME = [
    *(f"git push origin {branch}" for branch in BRANCHES),
    *(f"git push {remote} main" for remote in REMOTES),
    *(f"git push {remote} {branch}" for remote in REMOTES for branch in BRANCHES),
    *(f"git push origin main:{branch}" for branch in BRANCHES),
    *(f"git push origin --delete {branch}" for branch in ("main", "dev")),
    *("git push origin :main", "git push --tags origin", "git push origin tag v1"),
    *("git push --dry-run origin main", "git push -n origin main", "git pushd", "git status"),
    *("git push --help", "git push -h"),
    *("echo git push origin main", "grep -r 'git push' .", "git commit -m 'git push origin main'"),
    *("git log --grep=push", "cat push.sh", "git help push", "man git-push", "git stash push"),
    *("# git push origin main", "printf 'git push\\n' > todo", "git config alias.p push"),
    *("git fetch origin main", "git pull origin main", "git remote -v", "git branch main"),
    *("git tag push", "git add push", "git checkout push", "ls origin main", "pushd main"),
    *("npm publish", "docker push a/b:1", "gh pr create", "twine upload dist/*", "cargo publish"),
    *("git config alias.ship 'push origin main'", "git -c alias.z=status z", "G=git; $G status"),
    *('p() { git "$@"; }; p status', "echo status | xargs git", "git rebase --exec 'make test' a"),
    *(
        "B=push; echo $B origin main",
        "alias gp='git push'",
        "git remote add o2 /x; git push o3 main",
    ),
    *("find . -name push.sh", "find . -exec grep push {} +", "trap 'rm push' EXIT", "git-status"),
    *(f"curl -X POST http://h/{i}" for i in range(20)),
    *(f"docker push a/b:{i}" for i in range(20)),
    *(f"kubectl apply -f {i}.yaml" for i in range(20)),
    *(f"./deploy.sh stage{i}" for i in range(20)),
    *(f"mail -s x user{i}@h" for i in range(20)),
]


def test_a_push_that_is_put_together_by_the_line_is_not_repeatable():
    lines = [each.replace("; ", "\n") for each in NOT_UNDERSTOOD.strip().splitlines()]
    assert [line for line in lines if places_changed(line) is not None] == []


def test_another_action_is_not_taken_for_the_push():
    assert [other for other in NOT_THE_SAME if may_be(other, PUSH)] == []


def test_actions_of_one_family_on_other_things_are_not_the_same():
    families = [
        [f"curl -X POST http://h/{i}" for i in range(5)],
        [f"docker push a/b:{i}" for i in range(5)],
        [f"kubectl apply -f {i}.yaml" for i in range(5)],
        [f"./deploy.sh stage{i}" for i in range(5)],
        [f"mail -s x user{i}@h" for i in range(5)],
        [f"gh pr merge {i}" for i in range(5)],
        [f"scp a host{i}:/b" for i in range(5)],
        [f"make deploy-{i}" for i in range(5)],
        [f"gh issue create --title {i}" for i in range(5)],
        [f"ssh host{i} restart" for i in range(5)],
        [f"aws s3 cp a s3://b/{i}" for i in range(5)],
    ]
    for family in families:
        for one, other in itertools.combinations(family, 2):
            assert actions(one)
            assert not may_be(one, other), (one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("curl -X POST http://h/a", "curl http://h/a -d x=1 -s"),
        ("curl -d @f https://h:443/a/", "wget --post-data=x https://h/a"),
        ("curl -XPOST h/a", "http POST h/a x=1"),
        ("curl -d x http://127.0.0.1:8080/a", "curl -d x localhost:8080/a"),
        ("curl -d x http://[::1]/a", "curl -d x http://0.0.0.0/a"),
        ("curl --json '{}' h/a", "xh h/a x=1"),
        ('curl -X "$M" h/a', "curl -d x h/a"),
        ("npm publish", "npm publish --access public"),
        ("npm publish", "pnpm publish --no-git-checks"),
        ("python -m twine upload dist/*", "twine upload -r pypi dist/a.whl"),
        ("uv run twine upload dist/*", "python3 -I -m twine upload dist/a"),
        ("docker push a/b:1", "docker image push a/b:1"),
        ("docker buildx build --push -t a/b:1 .", "podman push a/b:1"),
        ("gh pr create --title A --body B", "gh pr create --fill"),
        ("gh release create v1", "gh release create v1 --notes x"),
        ("gh api -X POST /x", "gh api /x -f a=b"),
        ("kubectl apply -f a.yaml", "kubectl apply --filename=a.yaml"),
        ("terraform apply", "terraform apply -auto-approve"),
        ("fly deploy", "fly deploy --app x"),
        ("vercel --prod", "npx vercel deploy"),
        ("alembic upgrade head", "python -m alembic upgrade head"),
        ("python manage.py migrate", "./manage.py migrate"),
        ("./deploy.sh", "bash deploy.sh"),
        ("make release", "make release"),
        ("mail -s hi a@b c@d", "mail c@d a@b -s hello"),
        ("rsync -a x h:/y", "rsync -av x h:/y"),
        ("rsync -a x h:/y", "rsync -avP x h:/y"),
        ("rsync -a x h:/y", "rsync -lpoc -R -D -L x h:/y"),
        ("rsync -a x h:/y", "rsync -aze 'ssh -p 22' --exclude .git --bwlimit 9 x h:/y"),
        ("scp x h:/y", "scp -p -R -r x h:/y"),
        ("scp x h:/y", "scp -P 22 -l 9 -i key -o A=b x h:/y"),
        ("rsync --remove-source-files h:/x .", "rsync -a --remove-source-files h:/x /there"),
        ("scp x h:/y", "sftp -b batch -P 22 h"),
        ("scp x h:/y", "echo put x | sftp h"),
        ("ssh h restart", "ssh -p 22 -W a:1 -b ::1 -P tag h restart"),
        ("ssh h restart", "ssh -i key h restart"),
        ("jj git push", "jj git push"),
        ("hg push", "hg push"),
        ("svn commit -m x", "svn ci"),
        ("git svn dcommit", "git svn dcommit"),
        ("git subtree push --prefix x origin main", "git push origin main"),
        ("git send-email --to=a@b x.patch", "git send-email --to a@b x.patch"),
        ("git push https://h/r.git main", "git push origin main"),
        ("git push origin --all", "git push origin main"),
        ("skopeo copy a b", "skopeo copy a b"),
        ("helm upgrade x ./c", "helm upgrade x ./c"),
        ("rake db:migrate", "bundle exec rake db:migrate"),
        ("poetry publish", "poetry publish --build"),
        ("pulumi up", "pulumi up -y"),
        ("ansible-playbook site.yml", "ansible-playbook -i inv site.yml"),
        ("npm run deploy", "npm run deploy"),
        ("npx prisma migrate deploy", "prisma migrate deploy"),
        ("curl --url h/a -d x", "curl -d y h/a"),
        ("git push -- origin main", PUSH),
        ("git lfs push origin main", PUSH),
        ("git -C /a push", "git push"),
        ("cat x | xargs git push", PUSH),
        ("bash <<< 'git push'", PUSH),
        ("$'git' push", PUSH),
        ("npm dist-tag add a@1 latest", "npm dist-tag add a@1 latest"),
        ("curl -T file h/a", "curl -X PUT h/a"),
        ("curl -d x ''", "curl -d x h/a"),
    ],
)
def test_one_action_in_two_wordings_is_the_same(one, other):
    assert may_be(one, other)


@pytest.mark.parametrize(
    "command",
    [
        *("", "#", "ls", "curl http://h", "curl -G -d a=b http://h", "wget http://h", "http h/a"),
        *(
            "npm install",
            "npm publish --dry-run",
            "npm run build",
            "docker build -t x .",
            "docker ps",
        ),
        *("gh pr view 1", "gh pr list", "gh auth status", "gh api /x", "gh", "gh pr"),
        *("kubectl get pods", "kubectl apply -f x --dry-run=client", "kubectl rollout status d/x"),
        *("terraform plan", "terraform apply --help", "aws s3 ls", "gcloud info", "aws"),
        *("aws logs tail group", "gcloud run services list", "az vm show --name delete-me"),
        *("heroku apps:info", "gcloud logging read x", "aws configure set region here"),
        *("aws s3 cp a b --dryrun", "alembic history", "alembic upgrade head --sql", "helm list"),
        *("python -m pytest", "python -c deploy", "cat deploy.md", "vim release.txt"),
        *(
            "scp a b",
            "rsync -n a h:b",
            "rsync --dry-run a h:b",
            "rsync -a h:b .",
            "sftp h:/file here",
            "ssh h",
            "vercel ls",
            "uv run",
            "npx",
            "npx -y",
            "python -m",
        ),
        *("./deploy.sh --dry-run", "make", "cargo build", "twine check dist/*", "skopeo inspect a"),
        *("git", "git svn fetch", "hg pull", "svn up", "jj log", "docker manifest inspect x"),
        *(
            "sh -c",
            "sh",
            "eval",
            "busybox",
            "env",
            "timeout 5",
            "cd",
            "sh script",
            "ansible x --check",
        ),
        *("bundle exec", "npm exec", "poetry run", "twine upload --help --dry-run"),
    ],
)
def test_what_reaches_nobody_is_no_action(command):
    assert actions(command) == ()


def test_a_push_from_another_directory_is_another_one_where_both_say_so():
    assert not may_be("cd a && git push", "cd b && git push")
    assert not may_be("git -C a push", "git -C b push")
    assert not may_be("cd a; cd c; git push", "cd a; git push")
    assert may_be("cd /a/ && git push", "git -C /a push")
    assert may_be("cd a && git push", "git push")


def test_an_action_is_told_with_what_is_known_of_it():
    (push,) = actions("git push origin HEAD:main")
    assert push.in_words == "push origin main"


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
    ],
)
def test_what_a_clouds_program_acts_on_may_be_called_as_what_looks_is(command):
    assert len(actions(command)) == 1


@pytest.mark.parametrize("line", ["ant deploy", "ninja release", "mage release", "make deploy"])
def test_a_task_that_deploys_is_outward_whatever_runs_tasks(line):
    assert [each.family for each in actions(line)] == [f"script {line.split()[1]}"]


@pytest.mark.parametrize("line", ["make --just-print deploy", "just -l deploy", "make -n deploy"])
def test_a_run_that_only_tells_what_it_would_do_is_not(line):
    assert actions(line) == ()


def test_a_shells_own_option_of_that_name_makes_nothing_dry():
    assert actions("bash -l deploy.sh") != ()
