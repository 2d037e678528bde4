"""`upthread web`: the record in a browser, for who started it, and nothing that changes it."""

import hashlib
import html
import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from tests.support.axe import needs_axe, violations
from tests.support.chromium import needs_chromium, opened
from tests.support.decisions_told import decisions_told
from tests.support.every_case import environment_of
from tests.support.hostile_record import write_record
from tests.support.record_page import ATTACKS, Saying, Seen
from tests.support.sets import EXTENDED, SOAK
from tests.support.world import eventually

from upthread.client.framework_record import FrameworkRecord
from upthread.client.project_opener import open_project
from upthread.core.decision.words import RESUME
from upthread.runtime.record.entry_log import NewEntry
from upthread.runtime.turns.delegation import TellOptions

TURNS = 30
REHEARSAL = TellOptions(agent="rehearsal")


class Site:
    """A running `upthread web`, and a browser's cookie for it."""

    def __init__(self, place: Path) -> None:
        self.directory = place / "project"
        self.environment = {**os.environ, **environment_of(place)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "upthread", "web", "--no-open"],
            cwd=self.directory,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        self.address = re.search(r"http://\S+", line)[0]  # type: ignore[index]
        parts = urlsplit(self.address)
        self.host, self.port = parts.netloc, parts.port
        self.token = parse_qs(parts.query)["token"][0]
        self.cookie = {"Cookie": f"upthread-{self.port}={self.token}"}

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)

    def ask(
        self, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
    ) -> tuple[int, str, dict[str, str]]:
        """Ask as the browser that was let in does, unless other headers are given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=self.cookie if headers is None else headers)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, body, {name.lower(): value for name, value in response.getheaders()}


def tell(place: Path, address: str, times: int) -> None:
    async def told() -> None:
        async with open_project(place / "project", environment=environment_of(place)) as up:
            for at in range(times):
                await up.tell(address, f"[[rehearse: say reply-{at}]]", REHEARSAL)

    anyio.run(told)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("web")
    (place / "project").mkdir()
    tell(place, "feature/x/planner", TURNS)
    attack = Saying("\n".join(ATTACKS.values()))
    anyio.run(write_record, place / "project", environment_of(place), attack)
    return place


@pytest.fixture(scope="module")
def site(place: Path) -> Iterator[Site]:
    site = Site(place)
    yield site
    site.close()


def test_only_who_has_the_token_gets_in_and_it_stays_in_no_address(site: Site):
    assert site.ask("/", headers={})[0] == 401
    assert site.ask("/?token=wrong", headers={})[0] == 401
    assert site.ask("/", headers={"Cookie": f"upthread-{site.port}=wrong"})[0] == 401
    status, _, headers = site.ask(f"/search?q=a&token={site.token}", headers={})
    assert (status, headers["location"]) == (303, "/search?q=a")
    assert "HttpOnly; SameSite=Strict" in headers["set-cookie"]
    assert site.ask("/")[0] == 200


def test_a_way_in_leads_to_no_other_machine(site: Site):
    status, _, headers = site.ask(f"//evil.example/?token={site.token}", headers={})
    assert (status, headers["location"]) == (303, "/evil.example/")


@pytest.mark.parametrize("header", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_a_foreign_host_or_origin_is_refused_token_or_not(site: Site, header: dict[str, str]):
    assert site.ask("/", headers={**site.cookie, **header})[0] == 403
    assert site.ask(f"/?token={site.token}", headers=header)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_but_looking_is_there(site: Site, method: str):
    for path in ("/", "/workstream?name=feature/x", "/search?q=a", "/static/site.js"):
        assert site.ask(path, method=method)[0] == 405
    assert site.ask("/", method="HEAD")[:2] == (200, "")


def test_pages_say_what_a_browser_may_do_with_them(site: Site):
    for path in ("/", "/none", "/workstream?name=none", "/static/site.js"):
        headers = site.ask(path)[2]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_what_is_not_there_or_no_number_is_said(site: Site):
    status, body, _ = site.ask("/workstream?name=none")
    assert (status, "there is no workstream" in body) == (404, True)
    assert site.ask("/?first=none")[0] == 400
    assert site.ask("/static/..%2fserver.py")[0] == 404
    assert site.ask("/turns?name=feature/x&conversation=none&before=3")[0] == 404


def test_the_list_leads_to_each_workstream_and_it_to_its_turns(site: Site):
    links = re.findall(r'href="(/workstream[^"]*)"', site.ask("/")[1])
    assert "/workstream?name=feature%2Fx" in links
    page = site.ask("/workstream?name=feature%2Fx")[1]
    seen = Seen(page).text
    assert f"reply-{TURNS - 1}" in seen
    assert RESUME in decisions_told(seen)
    assert "reply-3\n" not in seen


def test_earlier_turns_are_led_to_until_the_first_and_none_is_shown_twice(site: Site):
    pages = [site.ask("/workstream?name=feature%2Fx")[1]]
    while found := re.search(r'href="(/turns[^"]*)"', pages[-1]):
        pages.append(site.ask(found[1].replace("&amp;", "&"))[1])
    numbers = [int(each) for page in pages for each in re.findall(r">Turn (\d+)<", page)]
    assert sorted(numbers) == list(range(1, TURNS + 1))


def test_what_was_said_is_found_and_leads_to_its_workstream(site: Site):
    body = site.ask("/search?q=reply-7")[1]
    assert 'href="/workstream?name=feature%2Fx"' in body
    assert "Nothing that was said" in site.ask("/search?q=nobody-said-this")[1]


@EXTENDED
def test_a_new_turn_is_told_of_while_a_workstream_is_looked_at(site: Site, place: Path):
    tell(place, "moving/planner", 1)
    page = site.ask("/workstream?name=moving")[1]
    live = re.search(r'hx-get="(/live[^"]*)"', page)
    assert live is not None
    again = live[1].replace("&amp;", "&")
    assert "more by now" not in site.ask(again)[1]
    tell(place, "moving/planner", 1)
    eventually(lambda: "1 turn more by now" in site.ask(again)[1])


def test_texts_of_strangers_stay_texts(site: Site):
    for path in ("/", "/workstream?name=spec", "/live?name=spec", "/search?q=script"):
        seen = Seen(site.ask(path)[1])
        assert not {"img", "iframe", "svg", "base"} & set(seen.tags)
        assert not [name for name, _ in seen.attributes if name.startswith("on")]
        assert seen.tags.count("script") == (0 if path.startswith("/live") else 2)
    assert ATTACKS["script"] in Seen(site.ask("/workstream?name=spec")[1]).text


def test_htmx_is_the_one_that_was_published_and_has_its_licence():
    """2.0.11, `dist/htmx.min.js` of its npm package."""
    folder = files("upthread.surfaces.web")
    digest = hashlib.sha256(folder.joinpath("htmx.min.js").read_bytes()).hexdigest()
    assert digest == "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
    assert "Zero-Clause BSD" in folder.joinpath("htmx.LICENSE").read_text()


@EXTENDED
@needs_chromium
@pytest.mark.timeout(240)
def test_a_browser_asks_this_server_alone_runs_nothing_else_and_follows_what_moves(
    site: Site, tmp_path: Path
):
    address = f"http://{site.host}/workstream?name=spec&token={site.token}"
    seen: Any = opened(address, tmp_path, "--virtual-time-budget=6000")
    assert seen.console == []
    assert {urlsplit(each).netloc for each in seen.requests} == {site.host}
    assert any("/live?" in each for each in seen.requests)
    assert "<title>spec · upthread</title>" in seen.dom
    assert ATTACKS["script"] in Seen(seen.dom).text


@EXTENDED
@needs_chromium
@needs_axe
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("width", "is_dark"), [(400, False), pytest.param(1400, True, marks=SOAK)])
def test_no_page_keeps_anybody_out(site: Site, tmp_path: Path, width: int, is_dark: bool):
    _, whole, _ = site.ask("/workstream?name=feature/x")
    (earlier, *_) = re.findall(r'href="(/turns[^"]*)"', whole)
    for at, path in enumerate(
        ("/", "/workstream?name=feature/x", html.unescape(earlier), "/search?q=reply", "/search?q=")
    ):
        status, page, _ = site.ask(path)
        assert status == 200
        found = violations(
            page,
            tmp_path / str(at),
            sheet=lambda href: site.ask(href)[1],
            width=width,
            is_dark=is_dark,
        )
        assert found == [], path


@EXTENDED
def test_many_who_look_get_every_page_while_others_write(site: Site, place: Path):
    paths = ("/", "/list", "/workstream?name=feature/x", "/search?q=reply")

    def write(number: int) -> None:
        with FrameworkRecord(place / "project", environment=environment_of(place)) as record:
            for value in range(50):
                record.log("writer", f"w{number}").append([NewEntry(value=value, text="a word")])

    with ThreadPoolExecutor(8) as pool:
        writing = [pool.submit(write, number) for number in range(4)]
        statuses = set(pool.map(lambda at: site.ask(paths[at % len(paths)])[0], range(200)))
        for each in writing:
            each.result()
    assert statuses == {200}
