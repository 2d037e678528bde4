"""A decision as a hook took it, and what a hook sees for itself of what one rests on.

Said once for both ways of taking one: `decision`, beforehand, and `full_decision`, the whole table.
"""

from __future__ import annotations

from upthread.runtime.bindings.light_json import list_in, text_in
from upthread.runtime.bindings.places import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class HookDecision:
    """A decision as it was taken: its reasons' codes, and the words of `core.decision.words`.

    `update` is what a resumed session is told first, and `changes` what of it a fresh one is told;
    `inputs` what the decision rests on.
    """

    def __init__(
        self,
        said: dict[str, Any],
        inputs: dict[str, Any],
        *,
        update: str = "",
        changes: tuple[str, ...] = (),
    ) -> None:
        self.decision = text_in(said, "decision")
        self.reasons = [each for each in list_in(said, "reasons") if isinstance(each, str)]
        self.because = text_in(said, "because")
        self.cost = text_in(said, "cost")
        self.hint = text_in(said, "hint")
        self.inputs = inputs
        self.update = update
        self.changes = changes


def surroundings(place: Place, role: dict[str, Any]) -> dict[str, Any]:
    """Return what a session works in, as far as a hook sees it: Surroundings as plain data."""
    return {
        "working_directory": place.root,
        "repository": place.repository if place.is_repository else None,
        "branch": place.branch,
        "commit": place.commit,
        "configuration": text_in(role, "configuration"),
    }
