"""Far ends of outward actions: each counts what arrives, and is slow with the first that does."""

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

SLOW_S = 60
"""How long the first action is under way unless it is let go."""

_COUNT_AND_WAIT = f"""#!/bin/sh
echo pushed >> "$PWD/pushes"
test -e slow || exit 0
rm slow
tenths=0
while test $tenths -lt {SLOW_S * 10} && ! test -e let-go; do
    tenths=$((tenths + 1))
    sleep 0.1
done
exit 0
"""


class FarEnd(Protocol):
    """Where an action arrives. `words` do it, `other_words` do the same, the last another one."""

    words: str
    other_words: str
    something_else: str

    @property
    def count(self) -> int:
        """How many have arrived."""
        ...

    def prepare(self) -> None:
        """Have something to do it with once more."""
        ...

    def let_go(self) -> None:
        """Let the first one come to its end."""
        ...

    def close(self) -> None: ...


class Pushes:
    """A bare repository that counts what is pushed."""

    def __init__(self, directory: Path, project: Path) -> None:
        self.remote = directory / "remote.git"
        self.project = project
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.remote], check=True)
        hook = self.remote / "hooks" / "post-receive"
        hook.write_text(_COUNT_AND_WAIT)
        hook.chmod(0o700)
        (self.remote / "slow").touch()
        subprocess.run(["git", "remote", "add", "origin", self.remote], cwd=project, check=True)
        self.words = "git push origin main"
        self.other_words = 'sh -c "git push -q origin HEAD:main"'
        self.something_else = "git push origin main:refs/heads/other"
        self.prepare()

    def prepare(self) -> None:
        git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        words = (*git, "commit", "-qm", "work", "--allow-empty")
        subprocess.run(words, cwd=self.project, check=True)

    @property
    def count(self) -> int:
        kept = self.remote / "pushes"
        return len(kept.read_text().split()) if kept.exists() else 0

    def let_go(self) -> None:
        (self.remote / "let-go").touch()

    def close(self) -> None:
        self.let_go()


class _Server:
    """A server on loopback that counts one method's requests."""

    def __init__(self, method: str) -> None:
        self.count = 0
        self._is_let_go = threading.Event()
        server = self

        def arrive(handler: BaseHTTPRequestHandler) -> None:
            handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            server.count += 1
            if server.count == 1:
                server._is_let_go.wait(SLOW_S)
            handler.send_response(201)
            handler.send_header("Content-Length", "2")
            handler.end_headers()
            handler.wfile.write(b"{}")

        def know_nothing(handler: BaseHTTPRequestHandler) -> None:
            handler.send_error(404)

        def say_nothing(_handler: BaseHTTPRequestHandler, _format: str, *_args: object) -> None:
            pass

        members = {f"do_{method}": arrive, "do_GET": know_nothing, "log_message": say_nothing}
        handler = type("Handler", (BaseHTTPRequestHandler,), members)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def prepare(self) -> None:
        pass

    def let_go(self) -> None:
        self._is_let_go.set()

    def close(self) -> None:
        self.let_go()
        self._server.shutdown()
        self._server.server_close()


class Posts(_Server):
    """Something that takes what is posted."""

    def __init__(self, directory: Path, project: Path) -> None:
        del directory, project
        super().__init__("POST")
        url = f"{self.address}/release"
        self.words = f"curl -s -d version=1 {url}"
        self.other_words = f"env A=b curl --request POST --data version=1 -s {url}/"
        self.something_else = f"curl -s -d version=1 {url}/other"


class Publishes(_Server):
    """An index of packages, and a package to publish there."""

    def __init__(self, directory: Path, project: Path) -> None:
        del directory
        super().__init__("PUT")
        package = {"name": "far-end", "version": "1.0.0", "files": ["package.json"]}
        (project / "package.json").write_text(json.dumps(package))
        secret = f"//{self.address.partition('//')[2]}/:_authToken=none\n"
        (project / ".npmrc").write_text(secret)
        self.words = f"npm publish --registry {self.address}"
        self.other_words = f"env A=b npm --registry {self.address} publish ."
        self.something_else = f"npm publish --registry {self.address} --tag next"
