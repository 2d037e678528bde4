"""A page in a real browser: it asks for nothing, says nothing, runs nothing, and can be read."""

from pathlib import Path

import pytest
from tests.support.chromium import needs_chromium, opened
from tests.support.record_page import ATTACKS, Saying, Seen, page_of

pytestmark = [needs_chromium, pytest.mark.timeout(240)]


@pytest.mark.soak
def test_hostile_texts_run_nothing_and_ask_for_nothing(tmp_path: Path):
    """All attacks in one page, since a browser takes its time to start."""
    file = tmp_path / "page.html"
    file.write_text(page_of(tmp_path / "record", Saying("\n".join(ATTACKS.values()))))
    seen = opened(file, tmp_path)
    assert seen.console == []
    assert seen.requests == set()
    dom = Seen(seen.dom)
    assert "script" not in dom.tags
    assert "img" not in dom.tags
    assert "<title>spec · upthread</title>" in seen.dom
    assert ATTACKS["script"] in dom.text


@pytest.mark.soak
def test_the_policy_is_what_keeps_a_script_from_running(tmp_path: Path):
    """What the page forbids is forbidden: put into it by hand, a script and a picture do nothing."""
    html = page_of(tmp_path / "record", Saying("plain"))
    bad = "<script>document.title='pwned'</script><img src='http://127.0.0.1:9/x' onerror='document.title=2'>"
    file = tmp_path / "page.html"
    file.write_text(html.replace("<main", f"{bad}<main"))
    seen = opened(file, tmp_path)
    assert "<title>spec · upthread</title>" in seen.dom
    assert seen.requests == set()
    assert len(seen.console) >= 2  # it says what it kept from happening
