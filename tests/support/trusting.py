"""A person's consent in tests: given to what a project's files say, as `upthread trust --yes` does.

There is no way round it in the product, so a test that wants such a file to count says so here.
"""

from pathlib import Path

from upthread.client.consent import decide, load_trusting
from upthread.core.agents import PROGRAM


def agree(project: Path, home: Path) -> None:
    """Agree to all that is pending of a project; `home` is the person's UPTHREAD_HOME."""
    settings = load_trusting(project, environment={"UPTHREAD_HOME": str(home)})
    items = [each.item for each in settings.pending]
    if items:
        decide(settings, items, is_given=True, by=PROGRAM, now_ms=1)


def configure(project: Path, home: Path, text: str) -> None:
    """Write a project's `upthread.toml` and agree to it."""
    (project / "upthread.toml").write_text(text)
    agree(project, home)
