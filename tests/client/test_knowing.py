"""Whose a path is, on a database that several share: another host's is another place."""

import os
from contextlib import asynccontextmanager, closing

import psycopg
import pytest
from msgspec import structs
from tests.support.postgres_server import as_owner
from tests.support.world import git

import upthread
from upthread.core.types import ProjectIdentity
from upthread.errors import NotFoundError, UsageError
from upthread.runtime.system import HOST_VARIABLE, USER_VARIABLE, path_owner
from upthread.store.drafting import changed
from upthread.store.kinds import Identified, ProjectOpened
from upthread.store.postgres import PostgresStore
from upthread.store.streams import new_head, written

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SECRET_PLAN = "the plan of ADA"
ASKED = "[[rehearse: report]]"


@pytest.fixture
def workspace(tmp_path):
    made = tmp_path / "workspace"
    made.mkdir()
    (made / "upthread.toml").write_text('agent = "rehearsal"\n[permissions]\nedit = "allow"\n')
    return made


@pytest.fixture
def opened(workspace, address, tmp_path, monkeypatch):
    """Open the workspace as a host, on the shared database unless said otherwise."""

    @asynccontextmanager
    async def opened(host, *, database=None, project=None, **more):
        monkeypatch.setenv(HOST_VARIABLE, host)
        environment = {
            **os.environ,
            "UPTHREAD_HOME": str(tmp_path / host),
            "UPTHREAD_REHEARSAL_HOME": str(tmp_path / host / "sessions"),
            **more,
        }
        async with upthread.open_project(
            workspace,
            database=database or as_owner(address),
            environment=environment,
            project=project,
        ) as found:
            yield found

    return opened


def forget_owners(address):
    """Leave the paths as they were recorded before they had owners."""
    with closing(PostgresStore(as_owner(address))) as store, psycopg.connect(address) as connection:
        connection.execute("SET upthread.project = '*'")
        for head in store.heads(None, "project"):
            change = changed(new_head("project", head.name, head.project_id))
            change.add(written(ProjectOpened(), 0))
            for identity in store.identities(head.name):
                change.add(written(Identified(structs.replace(identity, owner=None)), 0))
            for table, column in (("entry", "stream"), ("tag", "stream"), ("head", "id")):
                connection.execute(f"DELETE FROM upthread.{table} WHERE {column} = {head.row}")
            connection.commit()
            store.append([change])


@pytest.mark.extended
async def test_another_host_is_not_told_what_was_said_under_the_same_path(opened, address):
    async with opened("ada") as ada:
        await ada.tell("spec-42/planner", f"[[rehearse: say {SECRET_PLAN}]]")
        adas = ada.project_id
    async with opened("bea") as bea:
        assert bea.project_id != adas
        assert await bea.workstreams() == ()
        told = await bea.tell("spec-42/planner", "[[rehearse: say hello]]")
        said = [
            bea.store.messages(each.conversation_id)
            for each in bea.store.conversations(bea.project_id, "spec-42")
        ]
    assert SECRET_PLAN not in repr((told, said))
    async with opened("ada") as ada:
        assert ada.project_id == adas
        assert ada.notices_at_rest == ()


@pytest.mark.extended
async def test_a_container_finds_its_project_by_what_the_person_says(opened):
    async with opened("container-1") as first:
        project_id = first.project_id
    async with opened("container-2", UPTHREAD_PROJECT=project_id) as second:
        assert second.project_id == project_id
        assert second.notices_at_rest == ()
    async with opened("container-3") as third:
        assert third.project_id != project_id


async def test_what_is_said_with_the_option_is_kept_for_that_place(opened):
    async with opened("ada") as first:
        project_id = first.project_id
    async with opened("bea", project=project_id) as second:
        assert second.project_id == project_id
    async with opened("bea") as again:
        assert again.project_id == project_id


async def test_a_project_that_is_not_there_is_not_made_by_saying_it(opened):
    with pytest.raises(NotFoundError, match="no project"):
        async with opened("ada", project="prj_of_nobody"):
            pass


async def test_what_was_recorded_before_paths_had_owners_goes_to_nobody_by_itself(opened, address):
    async with opened("ada") as ada:
        adas = ada.project_id
        await ada.tell("spec-42/planner", f"[[rehearse: say {SECRET_PLAN}]]")
    forget_owners(address)
    for host in ("bea", "ada"):
        with pytest.raises(UsageError, match=adas) as caught:
            async with opened(host):
                pass
        assert "--project new" in caught.value.hint
    async with opened("bea", project="new") as bea:
        assert bea.project_id != adas
        assert await bea.workstreams() == ()
    async with opened("ada", project=adas) as ada:
        assert len(await ada.workstreams()) == 1
    for host, is_adas in (("bea", False), ("ada", True)):
        async with opened(host) as again:
            assert (again.project_id == adas) == is_adas


@pytest.mark.extended
async def test_two_clones_of_one_repository_share_it_over_two_hosts(opened, workspace):
    git(workspace, "init", "-q")
    git(workspace, "commit", "-q", "--allow-empty", "-m", f"first of {workspace}")
    async with opened("ada") as ada:
        adas = ada.project_id
        await ada.tell("spec-42/planner", "[[rehearse: say hello]]")
    async with opened("bea") as bea:
        assert bea.project_id == adas
        assert len(await bea.workstreams()) == 1


async def test_a_file_of_ones_own_knows_its_paths_whatever_the_host_is_called(opened, tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    file = str(tmp_path / "own" / "upthread.db")
    async with opened("ada", database=file) as first:
        project_id = first.project_id
        identity = first.store.projects(ProjectIdentity(path=str(tmp_path / "workspace")))
    assert [each.identity.owner for each in identity] == [None]
    async with opened("renamed", database=file) as again:
        assert again.project_id == project_id
        assert again.notices_at_rest == ()


def test_whose_a_path_is_does_not_follow_the_environment(monkeypatch):
    before = path_owner()
    for name in ("USER", "LOGNAME", "USERNAME", "HOME", USER_VARIABLE):
        monkeypatch.setenv(name, "mallory")
    assert path_owner() == before
    assert f"({os.geteuid()})" in before
    monkeypatch.setenv(HOST_VARIABLE, "elsewhere")
    assert path_owner() != before
