"""`classify`: what an answer of Cosmos DB means, whose job it is, and whether the request may be sent again."""

from __future__ import annotations

from typing import NamedTuple

from azlatch.contracts.diagnosis import Diagnosis, Kind, Language, Operation, Who
from azlatch.contracts.evidence import Evidence, Note, evidence_of, note
from azlatch.contracts.fields import operation_of
from azlatch.contracts.row import Key, Row
from azlatch.contracts.sources import spelled_out
from azlatch.contracts.table import TABLE, UNKNOWN
from azlatch.contracts.words import Words, words_of

_READS = ("read", "query")


class Meaning(NamedTuple):
    """What an answer is, whose job it is, and the key of the text that says so."""

    kind: Kind
    who: Who
    text: str


#: Where what was asked for says more than the numbers: the kind, whose job it is, and the text.
_REFINED: dict[tuple[Key, Operation | None], Meaning] = {
    **{
        ((404, 0), operation): Meaning("owner_missing", "operations", "owner_missing_for")
        for operation in ("create", "upsert", "query")
    },
    **{
        ((400, 1001), operation): Meaning("bad_request", "caller", "wrong_key")
        for operation in ("create", "read", "delete", "query", "batch")
    },
    **{
        ((409, 0), operation): Meaning("unique_key", "caller", "unique_or_id")
        for operation in ("replace", "patch", "upsert")
    },
}
#: What else is said of an answer, and the operations that it is said for; None is one that is not known.
_REMARKS: dict[Key, tuple[str, tuple[Operation | None, ...]]] = {
    (409, 0): ("own_create", ("create", "batch", None)),
    (412, 0): ("own_write", ("replace", "upsert", "patch", "delete", "batch", None)),
    (404, 0): ("own_delete", ("delete",)),
    (404, 1002): ("tokens_dropped", ("read", "query", "batch", None)),
}
#: How many other meanings of a status are named.
_MOST_OTHERS = 8


class _Place(NamedTuple):
    """Where in the table an answer is found, and what has to be said of how it was found."""

    key: Key
    row: Row
    notes: tuple[Note, ...] = ()
    depends: bool = False


def classify(
    error_or_response: object, *, operation: Operation | None = None, language: Language = "en"
) -> Diagnosis:
    """What an answer means; raises for nothing: what it does not know it says, as kind `unknown`.

    Args:
        error_or_response: an exception of azure-cosmos or azure-core, one of the standard library about a
            connection or a time limit, a response, the results of a batch, an error as JSON, a row or a line
            of a log, `(status, substatus)`, a number, or text such as "404/1002".
        operation: what the request was, where it is known: it says more than what the log row says.
        language: of the texts; the words for programs stay as they are.

    Only what is no `Exception`, a KeyboardInterrupt for example, passes through.
    """
    chosen: Language = "pt" if type(language) is str and language == "pt" else "en"
    try:
        return _diagnose(evidence_of(error_or_response), operation, chosen)
    except Exception:  # noqa: BLE001 - a hostile object may raise anything when it is looked at
        return _diagnose(Evidence(), None, chosen)


def meaning_of(status: int, substatus: int | None, operation: Operation | None = None) -> Meaning:
    """What `classify` says of an answer whose numbers are known, without its texts."""
    return _meaning(_look_up(Evidence(status, substatus)), operation)


def _diagnose(found: Evidence, given: Operation | None, language: Language) -> Diagnosis:
    words = words_of(language)
    operation = operation_of(given) or found.operation
    place = _look_up(found)
    kind, who, text = _meaning(place, operation)
    safe, reason = _again(place, operation)
    notes = [*place.notes, *found.notes, *_remarks(place.key, operation)]
    if given is not None and operation_of(given) is None:
        notes.append(note("unknown_operation"))
    answered = found.status != 0
    return Diagnosis(
        status=found.status or place.key[0] if answered else None,
        substatus=(found.substatus if found.substatus is not None else _sure(place)) if answered else None,
        name=place.row.name,
        kind=kind,
        cause=words.texts[text].cause,
        who=who,
        safe_to_retry=safe,
        retry=words.reasons[reason],
        wait_s=(place.row.wait_s if found.wait_s is None else found.wait_s) if safe else None,
        next_step=words.texts[text].next_step,
        source=spelled_out(place.row.source),
        operation=operation,
        index=found.index,
        dependents=found.dependents,
        activity_id=found.activity_id,
        notes=tuple(_said(words, each) for each in dict.fromkeys(notes)),
    )


def _meaning(place: _Place, operation: Operation | None) -> Meaning:
    row = place.row
    found = _REFINED.get((place.key, operation)) or Meaning(row.kind, row.who, row.text)
    if found.kind == "unknown_outcome" and operation in _READS:
        return found._replace(kind="no_answer")
    return found


def _look_up(found: Evidence) -> _Place:
    status, substatus = found.status, found.substatus
    if status is None:
        return _alone(substatus)
    if substatus is None:
        return _bare(status)
    for key in ((status, substatus), (None, substatus)):
        if key in TABLE:
            return _Place(key, TABLE[key])
    if (status, None) not in TABLE:
        return _Place((status, substatus), _other_status())
    notes = [note("unknown_substatus", status=status, substatus=substatus)] if substatus else []
    if substatus >= 10_000:
        notes.append(note("client_made"))
    return _Place((status, None), TABLE[status, None], tuple(notes))


def _alone(substatus: int | None) -> _Place:
    """A substatus without a status: it is the pair that has a meaning."""
    keys = [] if not substatus else [key for key in TABLE if key[1] == substatus and key[0] != 0]
    if len(keys) == 1:
        code = str(substatus) if keys[0][0] is None else f"{keys[0][0]}/{substatus}"
        return _Place(keys[0], TABLE[keys[0]], (note("substatus_only_one", substatus=substatus, code=code),))
    if not keys:
        return _Place((None, None), UNKNOWN)
    others = ", ".join(f"{key[0]}/{key[1]} {TABLE[key].kind}" for key in keys)
    return _Place((None, None), UNKNOWN, (note("substatus_alone", substatus=substatus, others=others),))


def _bare(status: int) -> _Place:
    """A status whose substatus is not known: the usual meaning, and what else it could be."""
    key: Key = (status, 0) if (status, 0) in TABLE else (status, None)
    if key not in TABLE:
        return _Place((status, None), _other_status())
    row = TABLE[key]
    others = {
        other: each
        for other, each in TABLE.items()
        if other[0] == status and other[1] and each.plane == "data" and each.kind != row.kind
    }
    if not others:
        return _Place(key, row)
    shown = [f"{code}/{sub} {TABLE[code, sub].kind}" for code, sub in list(others)[:_MOST_OTHERS]]
    if len(others) > _MOST_OTHERS:
        shown.append("…")
    depends = any(each.retry != row.retry for each in others.values())
    return _Place(key, row, (note("no_substatus", status=status, others=", ".join(shown)),), depends)


def _other_status() -> Row:
    return Row("", "unknown", "unknown", "look", "not_in_table", "other_status", "")


def _sure(place: _Place) -> int | None:
    """The substatus of a row that was found by another way than by its substatus; 0 was only assumed."""
    return place.key[1] or None


def _again(place: _Place, operation: Operation | None) -> tuple[bool | None, str]:
    row = place.row
    if place.depends:
        return None, "without_substatus"
    if row.retry == "reads":
        if operation in _READS:
            return True, "unknown_read"
        return None, f"unknown_{operation or 'any'}"
    return {"yes": True, "no": False, "look": None}[row.retry], row.reason


def _remarks(key: Key, operation: Operation | None) -> list[Note]:
    remark, operations = _REMARKS.get(key, ("", ()))
    return [note(remark)] if operation in operations else []


def _said(words: Words, said: Note) -> str:
    key, numbers = said
    return words.notes[key].format_map(dict(numbers))
