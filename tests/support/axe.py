"""axe-core on a page in a real browser: what keeps somebody from using it.

Rules and names: https://github.com/dequelabs/axe-core, 4.14.
"""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.chromium import opened

SCRIPT = Path(__file__).resolve().parents[2] / ".agents/node_modules/axe-core/axe.min.js"
needs_axe = pytest.mark.skipif(not SCRIPT.exists(), reason="axe-core is not installed: make agents")

_POLICY = re.compile(r'<meta[^>]*http-equiv="content-security-policy"[^>]*>', re.IGNORECASE)
_SHEET = re.compile(r'<link[^>]*rel="stylesheet"[^>]*href="(?P<href>[^"]*)"[^>]*>')
_OTHER_SCRIPT = re.compile(r"<script[^>]*>.*?</script>", re.DOTALL)
_RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(found => {
  const told = document.createElement("pre");
  told.id = "axe";
  told.textContent = JSON.stringify(found.violations.map(each => ({
    rule: each.id, impact: each.impact, nodes: each.nodes.map(node => node.html).slice(0, 3)})));
  document.body.append(told);
});
"""


def violations(
    page: str,
    place: Path,
    *,
    sheet: Callable[[str], str] = str,
    width: int = 1400,
    is_dark: bool = False,
) -> list[dict[str, Any]]:
    """Return what axe finds in a page, each with `rule`, `impact` and some `nodes`.

    The policy of the page goes, since it would keep axe out as well; `sheet` returns a style sheet
    that the page refers to.
    """
    page = _OTHER_SCRIPT.sub("", _POLICY.sub("", page))
    page = _SHEET.sub(lambda found: f"<style>{sheet(found['href'])}</style>", page)
    place.mkdir(parents=True, exist_ok=True)
    file = place / "checked.html"
    scripts = f"<script>{SCRIPT.read_text()}</script><script>{_RUN}</script>"
    file.write_text(page.replace("</body>", f"{scripts}</body>"), "utf-8")
    words = (f"--window-size={width},1200", "--virtual-time-budget=20000")
    # 0 is dark and 1 light: third_party/blink/public/mojom/css/preferred_color_scheme.mojom.
    scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
    dom = opened(file, place, *words, scheme).dom
    found = re.search(r'<pre id="axe">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    told: list[dict[str, Any]] = json.loads(html.unescape(found[1]))
    return told
