"""The status line: what the agent is doing, on a terminal, gone before any other text is written.

It never shares a line with the reply. Where nobody watches it does nothing and loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.output import Output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

CHARACTERS_MAX = 100


class StatusLine:
    """A spinner with a few words, on standard error."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._console: Console | None = None
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Show these words until `hide`; on a line of their own."""
        if not self._output.is_live:
            return
        words = self._words(text)
        if self._status is None:
            # It is drawn over the line it stands in, which may be the reply's.
            self._output.end_line()
            self._status = self._begun(words)
        self._status.update(words)

    def hide(self) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _words(self, text: str) -> Text:
        from rich.text import Text

        return Text(one_line(text, characters_max=CHARACTERS_MAX), style="dim", overflow="ellipsis")

    def _begun(self, words: Text) -> Status:
        from rich.console import Console

        if self._console is None:
            # On standard error: of standard output every byte is the reply.
            self._console = Console(stderr=True)
        status = self._console.status(words)
        status.start()
        return status
