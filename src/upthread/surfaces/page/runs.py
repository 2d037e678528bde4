"""Runs as HTML: the steps that were taken, and the questions that only a person can answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upthread.core import events
from upthread.core.actors import answerer_in_words
from upthread.core.runs.stops import stop_in_words
from upthread.core.types import JsonValue
from upthread.runtime.record.audit import AuditedRun
from upthread.surfaces.cli.shapes import run_status
from upthread.surfaces.cli.terminal.phrases import spaced
from upthread.surfaces.cli.terminal.times import moment
from upthread.surfaces.page.markup import Html, Markup
from upthread.surfaces.page.turns import anchor, standing


def run_pieces(html: Html, audited: AuditedRun) -> Iterator[Markup]:
    """Yield a run: how it stands, its steps, its questions, and its specification."""
    became = html.line(spaced(run_status(audited.view)))
    place = anchor(audited.run.run_id)
    said = [
        html.element(
            "h2",
            f"Run {audited.number}",
            " ",
            None if audited.standing else html.element("span", became, class_="quiet"),
            id=f"{place}-name",
        ),
        html.element("p", standing(html, audited.standing)) if audited.standing else None,
        html.element(
            "p",
            html.element("code", html.line(audited.run.run_id)),
            f" · started {moment(audited.run.opened_at_ms)}",
            class_="quiet",
        ),
        html.element("ol", _steps(html, audited), class_="steps", aria_label="Steps"),
        *_questions(html, audited),
        html.element(
            "details",
            html.element("summary", html.element("span", "Specification", class_="label")),
            html.element("pre", html.text(audited.view.specification), dir="auto"),
        ),
        *(
            html.element(
                "p",
                f"{moment(act.recorded_at_ms)}: ",
                html.element("strong", html.line(act.by_user)),
                " ",
                html.line(f"{spaced(act.what)} {act.detail}".strip()),
                class_="quiet",
            )
            for act in audited.acts
        ),
    ]
    yield html.element("section", said, class_="run", id=place, aria_labelledby=f"{place}-name")


def _steps(html: Html, audited: AuditedRun) -> Iterator[Markup]:
    """Yield each step as it ended, and what stopped the run between them."""
    for event in audited.events:
        match event:
            case events.StepEnded():
                yield _step(html, event)
            case events.RunParked(reason=reason, detail=detail, role=role):
                stop = stop_in_words(reason, detail)
                whose = f"{role}: " if role else ""
                words = f"{whose}{stop.said}" + (f": {stop.detail}" if stop.detail else "")
                yield html.element(
                    "li", "parked", html.element("br"), html.line(words), class_="doubt"
                )
            case events.RunResumed(because=because):
                yield html.element("li", "went on", html.element("br"), html.line(because))
            case events.RunEnded(status=status):
                mood = "good" if status in {"approved", "done"} else "bad"
                yield html.element(
                    "li", html.element("strong", html.line(spaced(status))), class_=mood
                )
            case _:
                pass


def _step(html: Html, event: events.StepEnded) -> Markup:
    report: Mapping[str, JsonValue] = event.report if isinstance(event.report, Mapping) else {}
    verdict = report.get("verdict")
    judged = str(verdict.get("result", "")) if isinstance(verdict, Mapping) else ""
    stop = stop_in_words(event.outcome, event.report_error)
    said = judged or str(report.get("status", "")) or stop.said
    mood = {"approved": "good", "done": "good", "rejected": "bad"}.get(said, "doubt")
    link = html.element("a", html.line(event.role), href=f"#{anchor(event.turn_id)}")
    detail = html.line(f": {stop.detail}") if stop.detail else None
    return html.element(
        "li", link, html.element("br"), html.line(spaced(said)), detail, class_=mood
    )


def _questions(html: Html, audited: AuditedRun) -> Iterator[Markup]:
    view = audited.view
    for question in view.questions:
        answer = view.answers.get(question.question_id)
        suggested = view.suggested.get(question.question_id)
        body: list[Markup] = [
            html.element(
                "p",
                html.line(question.role),
                " asked ",
                html.element("code", html.line(question.question_id)),
                ":",
                class_="quiet",
            ),
            html.element("blockquote", html.text(question.text), dir="auto"),
        ]
        if answer is not None:
            by = answerer_in_words(view.answered_by.get(question.question_id))
            body.append(html.element("p", html.line(by), " answered:", class_="quiet"))
            body.append(html.element("blockquote", html.text(answer), dir="auto"))
        elif suggested is not None:
            body.append(
                html.element("p", html.line(suggested.by.in_words), " suggested:", class_="quiet")
            )
            body.append(html.element("blockquote", html.text(suggested.text), dir="auto"))
        else:
            body.append(html.element("p", "Nobody has answered yet."))
        mood = "good" if answer is not None else "doubt"
        yield html.element("div", body, class_=f"question {mood}")
