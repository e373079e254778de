"""`azlatch explain`: what an answer of Cosmos DB means, whose job it is, and whether a retry is safe."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from azlatch.cli.app import GOOD, UNKNOWN, escape
from azlatch.contracts.diagnosis import LANGUAGES, OPERATIONS, Language, Operation
from azlatch.errors import UsageError

if TYPE_CHECKING:
    from azlatch.contracts.diagnosis import Diagnosis

_MOST_BYTES = 1 << 20
_MOST_LINES = 1_000


@click.command("explain")
@click.argument("answer", nargs=-1, metavar="[STATUS[/SUBSTATUS]]")
@click.option("--operation", type=click.Choice(OPERATIONS), help="What the request was.")
@click.option("--lang", "language", type=click.Choice(LANGUAGES), default="en", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(answer: tuple[str, ...], operation: Operation | None, language: Language, as_json: bool) -> int:
    """What STATUS[/SUBSTATUS] of Cosmos DB means; without it, what a JSON error, the results of a batch or log
    lines on standard input mean. Exit 3 if one of them is not known.

    Also takes the name of an answer (ReadSessionNotAvailable), and that of an exception (ServiceResponseError).
    """
    from azlatch.contracts.classifier import classify

    things = [" ".join(answer)] if answer and answer != ("-",) else _things(_standard_input())
    found = [classify(thing, operation=operation, language=language) for thing in things]
    for number, diagnosis in enumerate(found):
        if as_json:
            click.echo(json.dumps(diagnosis.to_json()))
        else:
            click.echo(("\n" if number else "") + _shown(diagnosis, language))
    return UNKNOWN if any(diagnosis.kind == "unknown" for diagnosis in found) else GOOD


def _standard_input() -> str:
    if sys.stdin.isatty():
        raise UsageError("say what to explain: a status such as 404/1002, or text on standard input")
    read = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(read) > _MOST_BYTES:
        raise UsageError(f"standard input has more than {_MOST_BYTES} bytes: give the part that matters")
    return read.decode("utf-8", "replace")


def _things(text: str) -> list[object]:
    """What stands in a text, each for itself: one JSON value, the rows of a JSON array, or lines."""
    if not text.strip():
        raise UsageError("standard input is empty: give an error as JSON, the results of a batch, or log lines")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _whole(text, _bounded([line for line in text.splitlines() if line.strip()]))
    if isinstance(data, list) and data and not _is_batch(data):
        return _bounded(data)
    return [data]


def _whole(text: str, lines: list[object]) -> list[object]:
    """The lines; all of them as one thing where it is one message over several lines, such as a traceback."""
    from azlatch.contracts.classifier import classify

    if "Traceback (most recent call last)" not in text:
        known = [line for line in lines if classify(line).kind != "unknown"]
        if len(lines) == 1 or len(known) > 1 or classify(text).kind == "unknown":
            return lines
    return [text]


def _is_batch(rows: list[object]) -> bool:
    """Whether they are the results of a batch, and not rows of a log or the texts of several errors."""
    return all(isinstance(row, dict) and "statusCode" in row and not row.keys() & _OF_LOGS for row in rows)


#: What the row of a log has, and the result of a batch has not.
_OF_LOGS = {
    "TimeGenerated",
    "OperationName",
    "operationName",
    "operationType",
    "ActivityId",
    "activityId",
    "time",
}


def _bounded(things: Sequence[object]) -> list[object]:
    if len(things) > _MOST_LINES:
        raise UsageError(
            f"standard input has {len(things)} lines, more than {_MOST_LINES}: give those that matter"
        )
    return list(things)


def _shown(diagnosis: Diagnosis, language: Language) -> str:
    from azlatch.contracts.words import words_of

    words = words_of(language)
    labels = words.labels
    again = labels[str(diagnosis.safe_to_retry).lower()]
    if diagnosis.wait_s is not None:
        again += ", " + labels["after"].format(seconds=f"{diagnosis.wait_s:g}")
    none = labels["no_answer"] if diagnosis.name else "-"
    lines = [f"{none if diagnosis.status is None else diagnosis.code} {diagnosis.name}".rstrip()]
    rows = [
        ("kind", diagnosis.kind),
        ("operation", diagnosis.operation or ""),
        ("cause", diagnosis.cause),
        ("who", words.who[diagnosis.who]),
        ("retry", f"{again}. {diagnosis.retry}"),
        ("next", diagnosis.next_step),
        *(("note", each) for each in diagnosis.notes),
        ("activity", diagnosis.activity_id or ""),
        ("source", diagnosis.source),
    ]
    width = max(len(label) for label in labels.values())
    return "\n".join(lines + [f"  {labels[name]:<{width}}  {escape(text)}" for name, text in rows if text])
