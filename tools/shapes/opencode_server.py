"""One real `opencode serve` that is asked to resume many sessions, one after the other."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tools.shapes import NEXT
from tools.shapes.drive import outcome_in, refused
from tools.shapes.measured import RECORDED
from tools.shapes.opencode_rows import Rows, connected, insert, project_in, recorded

from upthread.testing.rehearsal_model import RehearsalModel

PATIENCE_S = 20
_LISTENING = re.compile(r"listening on (http://\S+)")


class Server(NamedTuple):
    """A running server, its database and the directory that it works in."""

    url: str
    database: Path
    project: Path
    model: RehearsalModel

    def rows(self, number: int) -> Rows:
        """Return the recorded session with ids of its own."""
        raw = (RECORDED / "opencode.json").read_text()
        return recorded(raw, str(self.project), project_in(self.database), number)

    def add(self, rows: Rows) -> None:
        """Write a session into the server's database."""
        with closing(connected(self.database)) as connection, connection:
            insert(connection, rows)

    def resume(self, session: str, held: list[str]) -> dict[str, str]:
        """Send a prompt to a session and return what OpenCode did, as fields of a row."""
        prompt = f"{NEXT} {session}"
        asked = len(self.model.requests)
        said = self._post(session, {"parts": [{"type": "text", "text": prompt}]})
        requests = [
            each
            for each in self.model.requests[asked:]
            if prompt in json.dumps(each.body) and not each.is_side_request
        ]
        if not requests:
            return refused(said, self.project)
        return outcome_in(json.dumps(requests[-1].body), requests[-1].violations, held)

    def _post(self, session: str, body: Mapping[str, Any]) -> str:
        """Return the error of the answer, empty for none."""
        url = f"{self.url}/session/{session}/message?{urlencode({'directory': str(self.project)})}"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            # The reference to its log is another one each time.
            said = re.sub(r"err_\w+", "err_REF", error.read().decode(errors="replace"))
            return f"{error.code} {said}"
        except OSError as error:
            return f"no answer: {error}"
        return "an answer, and no request to the model"


@contextmanager
def serving(
    binary: str, home: Path, project: Path, environment: Mapping[str, str], model: RehearsalModel
) -> Iterator[Server]:
    """Start a server, and end it."""
    with subprocess.Popen(
        [binary, "serve", "--hostname", "127.0.0.1", "--port", "0"],
        cwd=project,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            listening = (_LISTENING.search(line) for line in process.stdout)
            found = next(filter(None, listening))
            database = home / ".local/share/opencode/opencode.db"
            yield Server(found[1], database, project, model)
        finally:
            process.kill()
