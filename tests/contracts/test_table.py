"""The table of answers: complete, unambiguous, in two languages, and the same in the docs and the CLI."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import pytest

from azlatch.cli.app import run
from azlatch.contracts import classify, page
from azlatch.contracts.classifier import _REFINED, _REMARKS
from azlatch.contracts.diagnosis import OPERATIONS
from azlatch.contracts.row import Key
from azlatch.contracts.sources import SOURCES
from azlatch.contracts.table import TABLE, UNKNOWN
from azlatch.contracts.words import words_of

ROOT = Path(__file__).parents[2]

LOCKS = (2001, 2002, 2003, 2004, 2005, 2007, 2008, 2011, 2012)
#: What is documented in public, written down once more: status, then substatus and what kind it has to be.
DOCUMENTED = {
    400: "0 bad_request 1001 immutable_partition_key 1004 query_not_servable 1013 misconfigured "
    "1024 container_changed 1102 bad_request 1103 bad_request 1104 bad_request 3205 busy",
    401: " ".join(f"{n} denied" for n in (0, *range(5000, 5014), *range(5200, 5204))),
    403: "0 denied 3 wrong_region 1005 quota 1008 wrong_region 1010 quota 1012 bad_request 1014 partition_full "
    "1028 quota 1031 bad_request 1034 owner_missing 1110 stale_version "
    + " ".join(f"{n} denied" for n in (*range(5300, 5308), 5400)),
    404: "0 absent 1002 behind_session 1003 owner_missing 1013 not_ready 1023 not_ready 1031 partition_moved "
    "1034 partition_moved",
    408: "0 unknown_outcome 1900 unknown_outcome 20008 unknown_outcome",
    409: "0 already_exists 1006 busy 3207 already_exists 3301 unique_key 3302 hash_collision",
    410: "0 partition_moved 1000 container_changed "
    "1002 partition_moved 1007 partition_moved 1008 partition_moved "
    "1022 partition_moved 1024 partition_moved 20001 unknown_outcome 20002 unknown_outcome "
    "21001 container_changed 21002 partition_moved 21003 partition_moved 21004 partition_moved "
    "21005 unknown_outcome 21006 unknown_outcome 21007 unavailable 21008 unknown_outcome 21009 unknown_outcome "
    "21010 unknown_outcome",
    412: "0 stale_version 1110 stale_version "
    + " ".join(f"{n} busy" for n in (*LOCKS, *range(2015, 2022), 2101)),
    413: "0 too_large 3401 too_large 3402 too_large",
    423: "0 busy",
    424: "0 failed_dependency",
    429: "3214 hot_key "
    + " ".join(
        f"{n} throttled"
        for n in (3200, 3201, 3204, 3207, 3210, 3212, 3213, 3300, 10003, 10005, *range(3073, 3104))
    ),
    449: "0 concurrent_write 5350 unavailable 5351 unavailable 5352 concurrent_write",
    452: "0 batch_failed",
    453: "5415 failed_dependency",
    500: " ".join(
        f"{n} unknown_outcome" for n in (0, 3001, 3002, 3003, 3004, 3010, 3021, 3042, 3043, 5411, 5412, 5413)
    ),
    503: "0 unavailable 1007 unavailable 1012 unavailable 1337 unavailable 1338 unavailable 1339 unavailable "
    "9001 unavailable 9002 unavailable 9003 unavailable 20003 unknown_outcome 21005 unknown_outcome "
    "21008 unknown_outcome 21015 unavailable",
    204: " ".join(f"{n} ok" for n in (2001, 2002, 2003, 2004, 2011, 2012)),
}  # fmt: skip
PAIRS = [
    (status, int(number), kind)
    for status, text in DOCUMENTED.items()
    for number, kind in zip(text.split()[::2], text.split()[1::2], strict=True)
]


def asked(key: Key) -> str:
    """What a person types for a row."""
    status, substatus = key
    if status == 0:
        return TABLE[key].name
    if status is None:
        return str(substatus)
    return f"{status}/99999" if substatus is None else f"{status}/{substatus}"


@pytest.mark.parametrize(("status", "substatus", "kind"), PAIRS)
def test_what_is_documented_is_in_the_table(status: int, substatus: int, kind: str) -> None:
    """Every documented pair has a row of its own, of the kind that it has to be."""
    assert TABLE[status, substatus].kind == kind
    found = classify((status, substatus))
    assert (found.status, found.substatus, found.kind) == (status, substatus, kind)


@pytest.mark.parametrize("number", [5401, 5402, 5403, 5404])
def test_answers_without_a_documented_status(number: int) -> None:
    """The answers of the retriable-writes feature are known by their substatus, under whatever status."""
    for status in (409, 412, 500):
        found = classify((status, number))
        assert (found.status, found.substatus, found.kind) == (status, number, "unknown_outcome")
        assert found.safe_to_retry is None


@pytest.mark.parametrize(
    ("number", "one", "other"),
    [
        (1002, 404, 410),
        (1007, 410, 503),
        (1008, 403, 410),
        (1012, 403, 503),
        (1013, 400, 404),
        (1024, 400, 410),
        (1031, 403, 404),
        (1034, 403, 404),
        (2001, 204, 412),
        (2002, 204, 412),
        (2003, 204, 412),
        (2004, 204, 412),
        (2011, 204, 412),
        (2012, 204, 412),
        (3207, 409, 429),
    ],
)
def test_ambiguous_numbers(number: int, one: int, other: int) -> None:
    """A substatus that has two meanings is told by its status, and alone it is unknown, with both named."""
    first, second = classify((one, number)), classify((other, number))
    assert first.name != second.name
    assert (first.kind, first.cause) != (second.kind, second.cause)
    alone = classify(number)
    assert (alone.kind, alone.status, alone.safe_to_retry) == ("unknown", None, None)
    assert f"{one}/{number}" in alone.notes[0]
    assert f"{other}/{number}" in alone.notes[0]


def test_every_row_is_whole() -> None:
    """Every row has texts in every language, a source that exists, and a wait exactly where one makes sense."""
    for key, row in TABLE.items():
        for language in ("en", "pt"):
            words = words_of(language)  # type: ignore[arg-type]
            assert row.text in words.texts, key
            assert row.reason in words.reasons or row.retry == "reads", key
            assert row.who in words.who
        assert row.source.split()
        assert set(row.source.split()) <= SOURCES.keys()
        assert row.wait_s is None or row.retry in ("yes", "reads"), key
        assert row.name.isalnum()


def test_a_retry_is_called_safe_only_where_nothing_was_applied() -> None:
    """No outcome that is unknown is safe for a write, and no refusal that lasts is worth a retry."""
    final = {
        "already_exists",
        "stale_version",
        "too_large",
        "partition_full",
        "denied",
        "immutable_partition_key",
    }
    for key, row in TABLE.items():
        assert row.kind != "unknown_outcome" or row.retry in ("reads", "look"), key
        assert row.kind not in final or row.retry == "no", key
        assert (
            row.kind not in ("throttled", "hot_key", "concurrent_write", "behind_session") or row.retry == "yes"
        )


def test_both_languages_are_complete() -> None:
    """Portuguese has every text that English has, with the same numbers in it, and none left in English."""
    english, portuguese = words_of("en"), words_of("pt")
    used = {row.text for row in TABLE.values()} | {text for _, _, text in _REFINED.values()}
    assert used | {UNKNOWN.text, "other_status"} == english.texts.keys()
    for part in ("texts", "reasons", "notes", "labels", "who"):
        one, other = getattr(english, part), getattr(portuguese, part)
        assert one.keys() == other.keys(), part
        for key in one:
            pair = zip(one[key], other[key], strict=True) if part == "texts" else [(one[key], other[key])]
            for text, translated in pair:
                assert fields(text) == fields(translated), key
                assert text != translated, key
    assert {f"unknown_{each}" for each in (*OPERATIONS, "any")} - {"unknown_query"} <= english.reasons.keys()
    assert {remark for remark, _ in _REMARKS.values()} <= english.notes.keys()


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_texts_are_sentences() -> None:
    """Every cause and every next step is a sentence, in both languages."""
    for language in ("en", "pt"):
        for key, text in words_of(language).texts.items():  # type: ignore[arg-type]
            for sentence in text:
                assert re.fullmatch(r"[A-ZÀ-Ü].*[.]", sentence), key
                assert "  " not in sentence, key


def test_the_documentation_has_the_table() -> None:
    """The page has the table exactly as the code makes it, and a line for every row."""
    text = (ROOT / "docs/contracts/classify.md").read_text(encoding="utf-8")
    assert page.renewed(text) == text
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    for key, row in TABLE.items():
        assert page.row_line(key, row) in text
        assert words_of("en").texts[row.text].cause in text


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_command_line_has_the_table(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`azlatch explain` knows every row of the table, in both languages, with the words of the table."""
    words = words_of(language)  # type: ignore[arg-type]
    for key, row in TABLE.items():
        code = run(["explain", asked(key), "--json", "--lang", language])
        found = json.loads(capsys.readouterr().out)
        assert (found["kind"], found["name"], found["who"]) == (row.kind, row.name, row.who), key
        assert found["cause"] == words.texts[row.text].cause, key
        assert found["next_step"] == words.texts[row.text].next_step
        assert code == (3 if row.kind == "unknown" else 0)
        assert run(["explain", asked(key), "--lang", language]) == code
        shown = capsys.readouterr().out
        for part in (row.kind, row.name, words.who[row.who], *words.texts[row.text]):
            assert part in shown
