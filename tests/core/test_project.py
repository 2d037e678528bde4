import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from upthread.core.names import (
    is_anybodys,
    is_unrelated,
    match_project,
    normalise_remote,
    project_id_for,
    roots_before,
)
from upthread.core.types import ProjectId, ProjectIdentity
from upthread.errors import UsageError

HERE = ProjectIdentity(path="/home/kim/app", root_commit="c0ffee", remote="github.com/kim/app")
OURS, OTHERS = ProjectId("prj_ours"), ProjectId("prj_others")
IDENTITIES = st.builds(
    ProjectIdentity,
    path=st.sampled_from(["/a", "/b", "/\udcff"]),
    root_commit=st.none() | st.sampled_from(["c1", "c2"]),
    remote=st.none() | st.sampled_from(["h/x", "h/y"]),
)


def known(*identities: ProjectIdentity) -> list[tuple[ProjectId, ProjectIdentity]]:
    return [(OURS, identity) for identity in identities]


@pytest.mark.parametrize(
    ("now", "before"),
    [
        pytest.param(replace(HERE, path="/srv/app"), HERE, id="a moved directory"),
        # A worktree's path is the common directory's parent: the repository it was made from.
        pytest.param(HERE, HERE, id="a worktree"),
        pytest.param(HERE, replace(HERE, remote=None), id="it gained a remote"),
        pytest.param(replace(HERE, remote=None, path="/x"), HERE, id="it lost its remote"),
        pytest.param(replace(HERE, remote="gitlab.com/kim/app"), HERE, id="its remote moved"),
        pytest.param(HERE, ProjectIdentity(path=HERE.path), id="a first commit and a remote"),
        pytest.param(HERE, replace(HERE, root_commit=None), id="a first commit"),
        pytest.param(replace(HERE, root_commit=None), HERE, id="an unborn branch"),
    ],
)
def test_a_repository_stays_the_project_it_was(now: ProjectIdentity, before: ProjectIdentity):
    assert match_project(now, known(before)) == OURS


def test_a_fork_with_a_remote_of_its_own_is_another_project():
    fork = replace(HERE, path="/home/kim/fork", remote="github.com/lee/app")
    assert match_project(fork, known(HERE)) is None
    # Nor because the original was once known without a remote.
    assert match_project(fork, known(replace(HERE, remote=None), HERE)) is None


def test_two_repositories_of_one_name_are_two_projects():
    other = replace(HERE, path="/tmp/app", root_commit="decade")
    assert match_project(other, known(HERE)) is None
    assert project_id_for(other) != project_id_for(HERE)


def test_another_repository_at_the_same_place_is_another_project():
    assert match_project(replace(HERE, root_commit="decade"), known(HERE)) is None


def test_a_plain_directory_is_known_by_its_path():
    plain = ProjectIdentity(path="/data")
    assert match_project(plain, known(plain)) == OURS
    assert match_project(replace(plain, path="/data2"), known(plain)) is None


def test_the_one_that_fits_exactly_is_taken_before_those_that_nearly_do():
    candidates = [(OURS, HERE), (OTHERS, replace(HERE, remote="github.com/lee/app", path="/x"))]
    assert match_project(replace(HERE, path="/y"), candidates) == OURS
    assert match_project(replace(HERE, path="/x", remote=None), candidates) == OTHERS


def test_two_that_fit_equally_well_are_an_error_never_a_guess():
    candidates = [(OURS, HERE), (OTHERS, replace(HERE, remote="github.com/lee/app"))]
    with pytest.raises(UsageError) as raised:
        match_project(replace(HERE, path="/elsewhere", remote=None), candidates)
    assert "/elsewhere could belong to 2 projects: prj_others, prj_ours" in raised.value.message
    assert "--project" in raised.value.hint


def test_nothing_known_is_a_new_project():
    assert match_project(HERE, []) is None


@given(IDENTITIES, st.lists(st.tuples(st.sampled_from([OURS, OTHERS]), IDENTITIES), max_size=5))
def test_a_match_is_one_of_the_known_or_an_error(
    identity: ProjectIdentity, candidates: list[tuple[ProjectId, ProjectIdentity]]
):
    try:
        found = match_project(identity, candidates)
    except UsageError:
        assert len({pid for pid, _ in candidates}) == 2
    else:
        assert found in {None, *(pid for pid, _ in candidates)}
        assert found == match_project(identity, reversed(candidates))


@given(IDENTITIES)
def test_a_directory_seen_twice_is_one_project(identity: ProjectIdentity):
    assert match_project(identity, [(OURS, identity)]) == OURS


@given(IDENTITIES, IDENTITIES)
def test_an_id_follows_from_what_the_project_is_known_by(a: ProjectIdentity, b: ProjectIdentity):
    def known_by(i: ProjectIdentity) -> object:
        return (i.root_commit, i.remote) if i.root_commit else i.path

    assert (project_id_for(a) == project_id_for(b)) == (known_by(a) == known_by(b))


@pytest.mark.parametrize(
    "url",
    [
        *("https://github.com/kim/app.git", "https://github.com/kim/app"),
        *("https://github.com/kim/app/", "https://GitHub.com:443/kim/app.git"),
        *("http://github.com:80/kim/app", "https://kim:secret@github.com/kim/app.git"),
        "https://kim:se@cret@github.com/kim/app.git",
        "https://secret@github.com/kim/app.git?access_token=secret#secret",
        *("ssh://git@github.com/kim/app.git", "ssh://git@github.com:22/kim/app.git"),
        *("git+ssh://git@github.com/kim/app.git", "git://github.com:9418/kim/app.git"),
        *("git@github.com:kim/app.git", "github.com:kim/app", "git:se@cret@github.com:kim/app"),
        *("git@github.com:/kim/app.git", "  https://github.com/kim/app.git\n"),
    ],
)
def test_every_form_of_one_remote_is_one_remote(url: str):
    assert normalise_remote(url) == "github.com/kim/app"


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("", None),
        ("  ", None),
        ("/srv/git/app.git", "/srv/git/app.git"),
        ("../app", "../app"),
        ("file:///srv/git/app.git", "/srv/git/app"),
        ("ssh://git@host:2222/app", "host:2222/app"),
        ("https://[::1]:8080/app.git", "[::1]:8080/app"),
        ("https://host/a/b/c.git", "host/a/b/c"),
    ],
)
def test_what_is_different_stays_different(url: str, remote: str | None):
    assert normalise_remote(url) == remote


@given(
    st.sampled_from(["https", "ssh", "git+ssh", "s3", "codecommit", "HTTP"]),
    st.from_regex(r"[a-zA-Z0-9._~%+@:=-]{1,12}", fullmatch=True),
    st.sampled_from(["", "/", "/x", "/x/y.git"]),
)
def test_no_credential_survives(scheme: str, password: str, path: str):
    remote = normalise_remote(f"{scheme}://user:{password}hunter2@host{path}")
    assert remote is not None
    assert "hunter2" not in remote
    assert "user" not in remote


def test_a_path_recorded_before_paths_had_owners_may_be_anybodys():
    mine = ProjectIdentity(path="/work/a", owner="ada(1)@host")
    before = ProjectIdentity(path="/work/a")
    elsewhere = ProjectIdentity(path="/work/b")
    (listed,) = known(before)
    assert is_anybodys(mine, [listed, *known(elsewhere)]) == (listed[0],)
    assert is_anybodys(mine, known(replace(mine, owner="eve(2)@host"))) == ()
    assert is_anybodys(before, [listed]) == ()


def test_a_repository_that_still_has_the_commit_it_was_known_by_is_the_same_project():
    merged = replace(HERE, root_commit="older")
    assert roots_before(merged, known(HERE)) == {HERE.root_commit}
    assert match_project(merged, known(HERE), held={HERE.root_commit}) == OURS
    assert match_project(merged, known(HERE)) is None, "another repository that took its place"


def test_what_was_merged_in_is_not_what_the_repository_becomes():
    other = ProjectId("prj_other")
    merged = replace(HERE, root_commit="older")
    both = [*known(HERE), (other, replace(merged, path="/elsewhere"))]
    assert match_project(merged, both, held={HERE.root_commit}) == OURS


def test_what_may_be_a_release_of_a_project_is_not_unrelated_to_it():
    theirs, held = ProjectIdentity(path="/b", root_commit="b", remote="b"), {"c0ffee", "held"}
    assert is_unrelated(HERE, [theirs], held=held)
    assert not is_unrelated(HERE, [theirs], held=()), "git does not answer"
    assert is_unrelated(replace(HERE, remote=None), [replace(theirs, remote=None)], held=held)
    for root, remote in (("held", "b"), (None, "b"), ("b", HERE.remote)):
        assert not is_unrelated(HERE, [replace(theirs, root_commit=root, remote=remote)], held=held)


def test_of_a_root_that_is_known_here_nothing_else_is_asked():
    assert roots_before(HERE, known(HERE, replace(HERE, root_commit="older"))) == frozenset()
    assert roots_before(replace(HERE, root_commit=None), known(HERE)) == frozenset()
    assert roots_before(replace(HERE, path="/elsewhere"), known(HERE)) == frozenset()
