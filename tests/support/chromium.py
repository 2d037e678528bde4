"""A real browser without a window: what it makes of a page, what it asks of the network."""

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")

_QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
    *("--hide-scrollbars", "--force-device-scale-factor=1", "--enable-logging=stderr"),
)
TIMEOUT_S = 90
ITS_OWN = ("google.com", "googleapis.com", "gvt1.com")
"""Whom the browser itself asks at every start, whatever page it opens; it is not let through."""


class Opened:
    """A page as the browser had it in the end."""

    def __init__(self, dom: str, log: str, requests: set[str]) -> None:
        self.dom = dom
        self.console = [line for line in log.splitlines() if ":CONSOLE" in line]
        self.requests = requests


def opened(page: Path | str, place: Path, *words: str) -> Opened:
    """Open a file, or an address; `requests` are the URLs it asked for, but the browser's own."""
    net_log = place / "net.json"
    done = _run(page, place, "--dump-dom", f"--log-net-log={net_log}", *words)
    return Opened(done.stdout, done.stderr, _urls(net_log))


def screenshot(page: Path | str, place: Path, *, name: str, width: int, height: int = 1600) -> Path:
    """Take a picture of a page, as wide as that."""
    picture = place / f"{name}-{width}.png"
    _run(page, place, f"--window-size={width},{height}", f"--screenshot={picture}")
    return picture


def _run(page: Path | str, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    return subprocess.run(
        [
            CHROMIUM,
            *_QUIET,
            f"--user-data-dir={place / 'browser'}",
            *words,
            page if isinstance(page, str) else page.as_uri(),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=True,
    )


def _urls(net_log: Path) -> set[str]:
    logged = net_log.read_text("utf-8").rstrip().rstrip(",")
    try:
        told = json.loads(logged)
    except json.JSONDecodeError:  # written until the browser's very end
        told = json.loads(logged + "]}")
    urls = {
        str(event["params"]["url"])
        for event in told["events"]
        if isinstance(event.get("params"), dict) and "url" in event["params"]
    }
    return {url for url in urls if not _is_the_browsers(url)}


def _is_the_browsers(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in {"file", "data", "chrome"} or (parts.hostname or "").endswith(ITS_OWN)
