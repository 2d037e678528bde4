"""The whole page, piece by piece: a head that forbids what a page could do, then the record.

It holds for a file that somebody else opens: nothing is loaded and nothing runs, which the page's
own Content-Security-Policy says to the browser as well. Only the one style sheet, whose digest it
names, is let in.
"""

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files

from upthread.core import events
from upthread.core.agents import answerer_in_words
from upthread.core.codec import text_at
from upthread.core.runs.stops import stop_in_words
from upthread.runtime.record.savings import delegations_of, savings_of
from upthread.runtime.record.timeline import RunNode, Timeline
from upthread.surfaces.cli.shapes import run_status, turns_in
from upthread.surfaces.cli.terminal.phrases import counted, moment, spaced
from upthread.surfaces.cli.verbs.savings import rows_of, sum_lines, ways_in_words
from upthread.surfaces.formats import Asked
from upthread.surfaces.page.markup import Html, Markup
from upthread.surfaces.page.turns import act_piece, anchor, branch_pieces, standing

NOT_WHOLE = (
    "Secrets are taken out. What a text has too many characters for is shown at its ends: "
    "the whole is in the audit as JSON."
)


@cache
def style() -> str:
    """Return the style sheet."""
    return files("upthread.surfaces.page").joinpath("style.css").read_text("utf-8")


def policy() -> str:
    """Return the Content-Security-Policy: nothing but the page's own style sheet."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def pieces(timeline: Timeline, asked: Asked) -> Iterator[str]:
    """Yield the page of a workstream."""
    html = Html(asked.redactor)
    # Neither is a text to be redacted: nothing there is anybody's, and nothing in `style` escaped.
    sheet, allowed = Markup(f"<style>{style()}</style>"), Markup(escape(policy()))
    yield html(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{}'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><title>{}</title>{}</head>'
        '<body><a href="#record" class="skip">Skip to the record</a>',
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'),
        f"{timeline.name} · upthread",
        sheet,
    )
    yield html('<header><p class="kicker">upthread</p>{}</header>', _header(html, timeline))
    yield html('<nav aria-label="Places"><ul>{}</ul></nav>', _places(html, timeline))
    yield html('<main id="record" tabindex="-1">')
    yield from sums_pieces(html, timeline)
    for run in timeline.runs:
        yield run_piece(html, run) + "\n"
    for branch in timeline.branches:
        for piece in branch_pieces(html, branch):
            yield piece + "\n"
    made = f"Written by upthread at {moment(asked.now_ms)}. {NOT_WHOLE}"
    yield html("</main><footer><p>{:text}</p></footer></body></html>\n", made)


def _header(html: Html, timeline: Timeline) -> Iterator[Markup]:
    view = timeline.workstream
    base_name = view.workstream.base_name
    yield html('<h1>{} <span class="quiet">{}</span></h1>', timeline.name, base_name)
    yield standing(html, view.standing)
    facts = (
        counted(len(view.roles), "role"),
        counted(turns_in(view), "turn"),
        counted(len(view.children), "sub-agent"),
        counted(len(timeline.runs), "run"),
    )
    yield html('<p class="facts">{}</p>', " · ".join(facts))
    yield faults_piece(html, timeline) or html(
        '<p class="facts">Every message verifies against its hash chain.</p>'
    )
    for doubt in view.in_doubt:
        yield html(
            '<p class="note doubt"><strong>May have been done, or not: </strong><code>{}</code> '
            '<span class="quiet">{}</span></p>',
            doubt.effect.title_in_words,
            f"{doubt.conversation.address}, {doubt.effect_id}",
        )


def faults_piece(html: Html, timeline: Timeline) -> Markup | None:
    """Return which conversations do not verify, None where all of them do."""
    if not timeline.faults:
        return None
    return html(
        '<p role="alert" class="note bad"><strong>Not what was recorded: </strong>{}</p>',
        ", ".join(f"{each.address} from message {seq}" for each, seq in timeline.faults),
    )


def _places(html: Html, timeline: Timeline) -> Iterator[Markup]:
    for run in timeline.runs:
        yield html('<li><a href="#{}">Run {}</a></li>', anchor(run.run.run_id), run.number)
    for branch in timeline.branches:
        state = branch.standing.state if branch.standing else "closed"
        generation = branch.conversation.generation
        yield html(
            '<li><a href="#{}">{}</a><span class="quiet"> {}</span></li>',
            anchor(branch.conversation.conversation_id),
            branch.name,
            f"{state} · generation {generation}" if generation > 1 else state,
        )


# --- what the delegations took -----------------------------------------------------------------


def sums_pieces(html: Html, timeline: Timeline) -> Iterator[Markup]:
    """Yield the sums, and what each was expected to read; nothing where nothing was delegated."""
    delegations = tuple(delegations_of(timeline))
    if not delegations:
        return
    total = savings_of(delegations)
    head, rows = rows_of(delegations)
    yield html(
        '<section aria-labelledby="took"><h2 id="took">What it took</h2><p>{}</p>'
        '<dl class="sums">{}</dl><details><summary>{}, each</summary>'
        '<div class="wide" tabindex="0" role="region" aria-label="Each delegation"><table>'
        "<caption>What is not told no estimate stands for; ~ marks an estimate.</caption>"
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div></details></section>",
        ways_in_words(total),
        [html("<dt>{}</dt><dd>{}</dd>", label, value) for label, value in sum_lines(total)],
        counted(len(delegations), "delegation"),
        [html('<th scope="col">{}</th>', name.capitalize()) for name in head],
        [
            html(
                '<tr><th scope="row"><a href="#{}">{}</a></th>{}</tr>',
                anchor(one.turn_id),
                address,
                [html("<td>{}</td>", cell) for cell in cells],
            )
            for one, (address, *cells) in zip(delegations, rows, strict=True)
        ],
    )


# --- runs --------------------------------------------------------------------------------------


def run_piece(html: Html, audited: RunNode) -> Markup:
    """Return a run: how it stands, its steps, its questions, and its specification."""
    place = anchor(audited.run.run_id)
    became = html('<span class="quiet">{}</span>', spaced(run_status(audited.view)))
    stands = audited.standing
    return html(
        '<section class="run" id="{}" aria-labelledby="{}-name"><h2 id="{}-name">Run {} {}</h2>{}'
        '<p class="quiet"><code>{}</code> · started {}</p>'
        '<ol class="steps" aria-label="Steps">{}</ol>{}'
        '<details><summary><span class="label">Specification</span></summary>'
        '<pre dir="auto">{:text}</pre></details>{}</section>',
        place,
        place,
        place,
        audited.number,
        None if stands else became,
        standing(html, stands) if stands else None,
        audited.run.run_id,
        moment(audited.run.opened_at_ms),
        _steps(html, audited),
        _questions(html, audited),
        audited.view.specification,
        [html('<p class="quiet">{}</p>', act_piece(html, act)) for act in audited.acts],
    )


def _steps(html: Html, audited: RunNode) -> Iterator[Markup]:
    """Yield each step as it ended, and what stopped the run between them."""
    for event in audited.events:
        match event:
            case events.StepEnded():
                stop = stop_in_words(event.outcome, event.report_error)
                judged = text_at(event.report, "verdict", "result")
                said = judged or text_at(event.report, "status") or stop.said
                yield html(
                    '<li class="{}"><a href="#{}">{}</a><br>{}{}</li>',
                    {"approved": "good", "done": "good", "rejected": "bad"}.get(said, "doubt"),
                    anchor(event.turn_id),
                    event.role,
                    spaced(said),
                    f": {stop.detail}" if stop.detail else None,
                )
            case events.RunParked(reason=reason, detail=detail, role=role):
                stop = stop_in_words(reason, detail)
                whose = f"{role}: " if role else ""
                words = f"{whose}{stop.said}" + (f": {stop.detail}" if stop.detail else "")
                yield html('<li class="doubt">parked<br>{}</li>', words)
            case events.RunResumed(because=because):
                yield html("<li>went on<br>{}</li>", because)
            case events.RunEnded(status=status):
                mood = "good" if status in {"approved", "done"} else "bad"
                yield html('<li class="{}"><strong>{}</strong></li>', mood, spaced(status))
            case _:
                pass


def _questions(html: Html, audited: RunNode) -> Iterator[Markup]:
    view = audited.view
    for question in view.questions:
        answer = view.answers.get(question.question_id)
        suggested = view.suggested.get(question.question_id)
        replied = '<p class="quiet">{} {}:</p><blockquote dir="auto">{:text}</blockquote>'
        if answer is not None:
            by = answerer_in_words(view.answered_by.get(question.question_id))
            reply = html(replied, by, "answered", answer)
        elif suggested is not None:
            reply = html(replied, suggested.by.in_words, "suggested", suggested.text)
        else:
            reply = html("<p>Nobody has answered yet.</p>")
        yield html(
            '<div class="question {}"><p class="quiet">{} asked <code>{}</code>:</p>'
            '<blockquote dir="auto">{:text}</blockquote>{}</div>',
            "good" if answer is not None else "doubt",
            question.role,
            question.question_id,
            question.text,
            reply,
        )
