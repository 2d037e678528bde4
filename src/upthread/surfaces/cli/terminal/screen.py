"""The screen of a turn: its decision, its status line, its reply and its end.

A signal ends a verb that talks to agents as Ctrl-C does, and the verb says what it was at. The turn
is cancelled and committed first, by the runtime. SIGTERM and SIGHUP are what supervisors and closed
terminals send; a signal that our caller ignores (nohup) stays ignored.
"""

import re
import signal
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from upthread.core.events import (
    AgentEvent,
    RunParked,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    TurnParked,
)
from upthread.core.roles.reports import REPORT_BYTES_MAX, MalformedReportError, Report, read_report
from upthread.core.states import go_on_command
from upthread.core.types import Lease, Outcome, UpstreamSessionId
from upthread.runtime.turns.delegation import Listener, Notice, TurnResult, TurnStarted
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.failures import EndedBySignalError
from upthread.surfaces.cli.terminal.input import PermissionDialogue, can_ask
from upthread.surfaces.cli.terminal.output import Output, StatusLine, Styled
from upthread.surfaces.cli.terminal.phrases import (
    counted,
    failure_in_words,
    going_on,
    one_line,
    parked_in_words,
    stopped_in_words,
)

ENDING = (signal.SIGTERM, signal.SIGHUP)

LIVE_CHARACTERS_MAX = 1_000
"""How much of the text is kept, so that its last line can be shown."""


def limit_notice(name: str, going_on: str, parked: TurnParked | RunParked) -> Notice:
    """Return a notice: until when a turn or a run waits, and the command that continues it."""
    until_ms = parked.reset_at_ms
    said, _ = stopped_in_words(parked.reason, detail="", until_ms=until_ms)
    text = f"{name}: waiting: {said}; nothing is lost by Ctrl-C, go on with: {going_on}"
    return Notice(kind="limit", text=text, about={"until_ms": str(until_ms), "command": going_on})


class Screen:
    """What a person sees of a turn: the decision, the status line, the reply.

    `shows_reply` is False where only the outcome counts, as in a run.
    """

    def __init__(self, output: Output, *, shows_reply: bool = True) -> None:
        self._output = output
        self._shows_reply = shows_reply
        self._session: UpstreamSessionId | None = None
        self._has_replied = False
        # A person reads the report as text; a pipe gets each byte of the reply.
        self._veil = ReportVeil() if output.is_terminal or not shows_reply else None
        self._live = ""
        self._ids: Mapping[str, str] = {}
        self._was_done = False
        self._status = StatusLine(output)
        self.ask_person = (
            # None parks the turn, because an unseen question would block it for ever.
            PermissionDialogue(output, self._make_room).ask if can_ask(output) else None
        )

    @contextmanager
    def ended_by_signals(self) -> Generator[None]:
        """Let signals end a block as Ctrl-C does. Raises EndedBySignalError where one did.

        At the end of the block the status line is gone.
        """
        # Ctrl-C needs no handler of ours: the interpreter raises for it.
        received: list[int] = [signal.SIGINT]

        def pass_on(number: int, _frame: FrameType | None) -> None:
            received[0] = number
            signal.raise_signal(signal.SIGINT)  # which the event loop knows how to end for

        # Only those at their default: what nohup or our caller has set is not ours to undo.
        usual = [each for each in ENDING if signal.getsignal(each) is signal.SIG_DFL]
        for each in usual:
            signal.signal(each, pass_on)
        try:
            yield
        except KeyboardInterrupt:
            raise EndedBySignalError(received[0], self._ids, has_ended=self._was_done) from None
        finally:
            self._make_room()
            for each in usual:
                signal.signal(each, signal.SIG_DFL)

    def listener(self) -> Listener:
        """Return the listener that feeds this screen, or writes one JSON object a line."""
        return Listener(
            started=self._started,
            event=self._event,
            waiting=self._waiting,
            notice=self._notice,
            cancelled=self._cancelled,
            limited=self._limited,
        )

    def _cancelled(self, result: TurnResult) -> None:
        """Keep what is said of the turn where a signal ends the verb."""
        self._output.json(shapes.turn_ended(result))
        self._ids = shapes.ids(result)
        # A cancelled turn has the outcome `cancelled`.
        self._was_done = result.outcome is Outcome.OK and result.parked is None

    def end(self, result: TurnResult) -> None:
        """Show what was not streamed: a reply from before a crash, and a bad ending."""
        self._make_room()
        # A reply that was taken over after a crash has never been streamed.
        if not self._has_replied:
            self._reply(result.reply)
        if self._veil:
            self._output.reply(self._veil.end())
        self._output.end_line()
        if self._veil and result.report:
            for line, style in report_lines(result.report):
                self._output.line(line, style)
        self._tell_trouble(result)

    def _tell_trouble(self, result: TurnResult) -> None:
        """Print why a turn failed or waits, and the next command."""
        address = result.conversation.address
        if result.parked is not None:
            said, hint = parked_in_words(result.parked)
            go_on = going_on(result.conversation.key, result.parked.reason)
            self._output.remark(f"{address}: PARKED: {said} ({go_on})", "yellow")
            self._output.remark(f"  {hint}", "dim")
        elif shapes.told_status(result) == "failed":
            said, hint = failure_in_words(result)
            self._output.remark(f"error: {address}: {said} ({hint})", "red")
        elif result.detail:  # the turn ended well, but its reply is cut off or empty
            self._output.remark(f"{address}: {one_line(result.detail)}", "yellow")

    def hide(self) -> None:
        """Take the status line away, for others to write."""
        self._status.hide()

    def _make_room(self) -> None:
        self._status.hide()
        self._output.end_line()

    def _started(self, started: TurnStarted) -> None:
        self._status.hide()
        self._output.json(shapes.turn_started(started))
        self._session = started.upstream_session_id
        self._live = ""
        (self._output.remark if self._shows_reply else self._output.line)(started.line, "cyan")
        self._status.show(f"{started.agent} is working")

    def _event(self, event: AgentEvent) -> None:
        self._output.json(shapes.part(event))
        if event.upstream_session_id != self._session:
            return  # a child's event is not this turn's reply
        match event:
            case TextReceived(text=text) if self._shows_reply:
                self._has_replied = True
                self._reply(text)
            case TextReceived(text=text):
                # Only the outcome is kept on the screen: of a reply the line being written shows.
                assert self._veil, "made where no reply is shown"
                self._live = (self._live + self._veil.feed(text))[-LIVE_CHARACTERS_MAX:]
                line = self._live.strip().rpartition("\n")[2]
                otherwise = "writing its report" if self._veil.is_holding else "writing"
                self._status.show(line or otherwise)
            case ToolCallAnnounced(title=title) | ToolCallUpdated(title=title) if title:
                self._status.show(title)
            case _:
                pass

    def _reply(self, text: str) -> None:
        shown = self._veil.feed(text) if self._veil else text
        if shown:
            self._status.hide()
            self._output.reply(shown)
        elif self._veil and self._veil.is_holding:
            self._status.show("writing its report")

    def _notice(self, notice: Notice) -> None:
        self._make_room()
        self._output.json(shapes.notice(notice))
        self._output.remark(one_line(notice.text), "yellow")

    def _limited(self, result: TurnResult) -> None:
        """Show a limit. The turn is parked, so that Ctrl-C loses nothing."""
        self._cancelled(result)
        assert result.parked is not None
        address = result.conversation.address
        self.tell_limit(limit_notice(address, go_on_command(address), result.parked))

    def tell_limit(self, limit: Notice) -> None:
        """Show until when the turn waits."""
        self._notice(limit)
        self._status.show("waiting for the limit to pass")

    def _waiting(self, lease: Lease) -> None:
        holder = lease.holder.in_words() if lease.holder else "a holder that has just gone"
        self._status.hide()
        self._output.remark(f"waiting for {holder}")
        self._status.show("waiting")


# --- its report ---------------------------------------------------------------------------------
# The report at the end of a reply, which is JSON for the next role, as a person reads it.
#
# While a reply comes, a block that may be a report is held back; what turns out to be none is shown
# as it is. Only where a person watches: who reads a pipe on relies on each byte.

SUMMARY_CHARACTERS_MAX = 160

_FENCE = "```upthread"
_OPENS = re.compile(r" {0,3}```upthread[ \t]*\r?\n")
_CLOSES = re.compile(r"^ {0,3}```[ \t]*\r?\n", re.MULTILINE)


class ReportVeil:
    """Feeds a reply through, its reports held back."""

    def __init__(self) -> None:
        self._held = ""
        self._is_within_line = False

    @property
    def is_holding(self) -> bool:
        """Whether a report may be under way."""
        return _OPENS.match(self._held) is not None

    def feed(self, text: str) -> str:
        """Return what of a piece is to be shown now."""
        self._held += text
        shown: list[str] = []
        while size := self._decided():
            block, self._held = self._held[:size], self._held[size:]
            self._is_within_line = not block.endswith("\n")
            shown.append("" if _is_report(block) else block)
        return "".join(shown)

    def end(self) -> str:
        """Return what was held back and is no report; the reply is over."""
        held, self._held = self._held, ""
        return "" if _is_report(held) else held

    def _decided(self) -> int:
        """Return how many characters are no part of a report, or all of one."""
        end = self._held.find("\n") + 1
        line = self._held[: end or None]
        if self._is_within_line or not _may_open(line):
            return len(line)
        if not _OPENS.fullmatch(line):
            return end
        if closing := _CLOSES.search(self._held, end):
            return closing.end()
        return len(self._held) if len(self._held) > REPORT_BYTES_MAX else 0


def report_in_words(report: Report | None) -> Styled:
    """Return the style and the line that tells what a role has handed back."""
    if report is None:
        return "yellow", "no report that can be read"
    if report.status == "needs_input":
        return "yellow", f"asks {counted(len(report.questions), 'question')}"
    if report.status == "blocked":
        return "red", f"blocked: {one_line(report.summary)}"
    if report.verdict is None:
        lines = report.summary.strip().splitlines() or ["no summary"]
        more = f" (and {counted(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
        return "", f"done: {one_line(lines[0], characters_max=SUMMARY_CHARACTERS_MAX)}{more}"
    evidence = "; ".join(report.verdict.evidence)
    style = "green" if report.verdict.result == "approved" else "yellow"
    return style, one_line(
        f"{report.verdict.result}: {evidence}" if evidence else report.verdict.result
    )


def report_lines(report: Report) -> Iterator[Styled]:
    """Yield the lines that tell a report whole, each with its style."""
    style, said = report_in_words(report)
    yield f"report: {said}", style
    listed = (
        ("asks", [f"{each.id}: {each.text}" for each in report.questions]),
        ("decided", report.decisions),
        ("found", report.findings),
    )
    for label, items in listed:
        for each in items:
            yield f"  {label} {one_line(each)}", ""


def _is_report(block: str) -> bool:
    try:
        read_report(block)
    except MalformedReportError:
        return False
    return True


def _may_open(line: str) -> bool:
    begun = line.lstrip(" ")
    return (
        len(line) - len(begun) <= 3
        and (  # Markdown's own
            _FENCE.startswith(begun)
            or (begun.startswith(_FENCE) and not begun[len(_FENCE) :].strip())
        )
    )
