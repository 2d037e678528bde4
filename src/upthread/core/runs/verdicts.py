"""Verdicts: what a judgement was passed on, and whether it still holds for what is there now.

A verdict is bound to what its role was given (the specification and the reports it needs) and,
where it judged work in the working tree, to that tree's content as it was when the verdict came. A
tree that was judged and cannot be looked at now is not the one that was judged.
"""

from __future__ import annotations

from msgspec import Struct

from upthread.core.runs.pipeline import Finish, next_command
from upthread.core.runs.run_view import Handed, RunView
from upthread.core.runs.step_prompt import input_digest


class VerdictView(Struct, frozen=True, kw_only=True):
    """A verdict and whether what it judged is still the same.

    `tree_digest` is empty for a verdict on something else than the working tree. `in_doubt` are the
    ids of actions of the workstream that may have been done or not, which no judge could see.
    """

    outcome: str
    input_digest: str
    tree_digest: str
    is_current: bool
    evidence: tuple[str, ...]
    in_doubt: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """What it is worth now: an approval that no longer holds is never that word alone."""
        limits = (
            "" if self.is_current else ", of something that has changed since",
            ", while an action beyond this machine is in doubt" if self.in_doubt else "",
        )
        return "".join((self.outcome, *limits))


def holds(view: RunView, handed: Handed, *, tree_digest: str) -> bool:
    """Return whether a report was based on what is there now.

    `tree_digest` is the working tree's as it is, empty where it is not known.
    """
    step = view.pipeline.steps[view.pipeline.index_of(handed.role)]
    has_same_input = handed.input_digest == input_digest(view, step)
    # Empty for a judgement of reports alone: whatever the tree is, it holds.
    return has_same_input and handed.tree_digest in {"", tree_digest}


def final_approval(view: RunView) -> Handed | None:
    """Return the judgement of a tree that a finished run rests on, None where there is none."""
    is_ended = view.ended is not None and view.ended.status == "approved"
    if not is_ended and not isinstance(next_command(view), Finish):
        return None
    handed = view.handed.get(view.pipeline.steps[-1].role)
    # A verdict on reports alone cannot be overtaken by an edit of the tree.
    return handed if handed is not None and handed.tree_digest else None
