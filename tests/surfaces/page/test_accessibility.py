"""A page can be used by everybody: axe finds nothing, wide and narrow, in light and in dark."""

from pathlib import Path

import pytest
from tests.support.axe import needs_axe, violations
from tests.support.chromium import needs_chromium
from tests.support.record_page import ATTACKS, Saying, page_of
from tests.support.sets import EXTENDED

pytestmark = [EXTENDED, needs_chromium, needs_axe, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("page")
    return page_of(place / "record", Saying("\n".join(ATTACKS.values())))


@pytest.mark.parametrize(("width", "is_dark"), [(400, True), (1400, False)])
def test_the_page_of_a_workstream_keeps_nobody_out(page, tmp_path: Path, width, is_dark):
    assert violations(page, tmp_path, width=width, is_dark=is_dark) == []


def test_what_keeps_somebody_out_is_found(page, tmp_path: Path):
    bad = page.replace(' lang="en"', "").replace("<main", '<p style="color:#eee">pale</p><main', 1)
    found = {each["rule"] for each in violations(bad, tmp_path)}
    assert {"html-has-lang", "color-contrast"} <= found
