"""What expressions are worth: operators and functions, one by one."""

# ruff: noqa: E501 - a table reads best with a case a line

from __future__ import annotations

from typing import Any

import pytest

from azlatch.lab.cosmos.sql import execute, parse

ITEM = {
    "id": "1",
    "n": 7,
    "x": 2.5,
    "s": "Hello",
    "t": True,
    "z": None,
    "a": [1, "b", None, {"k": 1, "l": 2}],
    "o": {"k": {"m": 5}, "a b": 1},
}
NOTHING = "nothing"


def worth(expression: str) -> Any:
    """The value of an expression on the item; NOTHING where it is undefined."""
    values = list(
        execute(
            parse(f"SELECT VALUE {expression} FROM c"), {"@p": 3, "@key": "s"}, [ITEM], now=1_600_000_000.25
        )
    )
    return values[0] if values else NOTHING


CASES: dict[str, list[tuple[str, Any]]] = {
    "access": [
        ("c.n", 7), ("c['n']", 7), ('c["o"]["a b"]', 1), ("c.o.k.m", 5), ("c.a[3].k", 1), ("c[@key]", "Hello"),
        ("c.a[9]", NOTHING), ("c.a[-1]", NOTHING), ("c.a['0']", NOTHING), ("c.s[0]", NOTHING), ("c.no.no", NOTHING),
        ("c.z.x", NOTHING), ("{'a': c.n, 'b': c.no}", {"a": 7}), ("[c.n, c.no, [null]]", [7, [None]]), ("@p", 3),
    ],
    "literals": [
        ("'it\\'s'", "it's"), ('"\\u00e9\\n"', "é\n"), ("'\\ud83d\\ude00'", "😀"), ("1e3", 1000), (".5", 0.5),
        ("-0.5", -0.5), ("undefined", NOTHING), ("NULL", None), ("True", True), ("{value: 1}", {"value": 1}),
    ],
    "arithmetic": [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 / 2", 3.5), ("-7 % 3", -1), ("1 / 0", NOTHING), ("1 % 0", NOTHING),
        ("1 + '1'", NOTHING), ("true + 1", NOTHING), ("-c.s", NOTHING), ("c.no + 1", NOTHING), ("6 / 2", 3),
        ("9007199254740992 + 1", 9007199254740992), ("1e308 * 10", NOTHING), ("-c.n", -7), ("+c.n", 7),
    ],
    "bits": [
        ("6 & 3", 2), ("6 | 3", 7), ("6 ^ 3", 5), ("~0", -1), ("1 << 31", -2147483648), ("-8 >> 1", -4),
        ("-1 >>> 28", 15), ("2147483648 | 0", -2147483648), ("'a' & 1", NOTHING), ("1.9 | 0", 1),
    ],
    "comparison": [
        ("1 = 1.0", True), ("1 = '1'", False), ("1 != '1'", True), ("1 <> 2", True), ("null = null", True),
        ("null = c.no", NOTHING), ("true = 1", False), ("[1, {'a': 2}] = [1, {'a': 2.0}]", True), ("{} = []", False),
        ("1 < 2", True), ("'a' < 'b'", True), ("1 < 'b'", NOTHING), ("false < true", True), ("null <= null", True),
        ("[1] < [2]", NOTHING), ("c.no >= 1", NOTHING), ("100000000000000000 = 1e17", True),
        ("1 + 1 = 2", True), ("1 = 1 & 1", NOTHING), ("'a' || 'b' = 'ab'", NOTHING), ("('a' || 'b') = 'ab'", True),
    ],
    "logic": [
        ("true AND c.no", NOTHING), ("false AND c.no", False), ("c.no AND false", False), ("true OR c.no", True),
        ("c.no OR true", True), ("false OR c.no", NOTHING), ("1 OR true", True), ("1 OR false", NOTHING),
        ("NOT c.t", False), ("NOT c.no", NOTHING), ("NOT 1", NOTHING), ("NOT c.t = false", True),
        ("c.no ?? 1", 1), ("null ?? 1", None), ("true ? 1 : 2", 1), ("1 ? 1 : 2", 2), ("c.no ? 1 : 2", 2),
        ("false ? 1 : true ? 2 : 3", 2),
    ],
    "in, between, like": [
        ("c.n IN (1, 7)", True), ("c.n IN ('7')", False), ("c.n NOT IN (1)", True), ("c.no IN (1)", NOTHING),
        ("c.o.k IN ({'m': 5})", True), ("c.s IN ('Hello', 1)", True), ("c.t IN (1)", False), ("c.z IN (null)", True),
        ("c.n BETWEEN 7 AND 8", True), ("c.n NOT BETWEEN 1 AND 2", True), ("c.n BETWEEN 'a' AND 'b'", NOTHING),
        ("c.n BETWEEN 9 AND 'b'", False), ("c.s LIKE 'He%'", True), ("c.s LIKE 'h%'", False), ("c.s LIKE '_ello'", True),
        ("c.s LIKE '%l%o'", True), ("c.s LIKE 'Hell'", False), ("c.s LIKE '[A-I]ello'", True), ("c.s LIKE '[^H]%'", False),
        ("'5%' LIKE '_!%' ESCAPE '!'", True), ("'55' LIKE '_!%' ESCAPE '!'", False), ("c.n LIKE '7'", NOTHING),
        ("c.s NOT LIKE 'x%'", True), ("'' LIKE '%'", True), ("'a[b' LIKE 'a[b'", True),
    ],
    "types": [
        ("IS_DEFINED(c.no)", False), ("is_defined(c.z)", True), ("IS_NULL(c.z)", True), ("IS_NULL(c.no)", False),
        ("IS_NUMBER(c.x)", True), ("IS_NUMBER(true)", False), ("IS_BOOL(c.t)", True), ("IS_STRING(c.s)", True),
        ("IS_ARRAY(c.a)", True), ("IS_OBJECT(c.o)", True), ("IS_PRIMITIVE(c.a)", False), ("IS_PRIMITIVE(null)", True),
        ("IS_INTEGER(2.0)", True), ("IS_INTEGER(2.5)", False), ("IS_FINITE_NUMBER(1)", True), ("IIF(c.t, 1, 2)", 1),
        ("IIF(c.no, 1, 2)", 2),
    ],
    "strings": [
        ("CONCAT('a', 'b', 'c')", "abc"), ("CONCAT('a', 1)", NOTHING), ("CONTAINS(c.s, 'ell')", True),
        ("CONTAINS(c.s, 'ELL')", False), ("CONTAINS(c.s, 'ELL', true)", True), ("STARTSWITH(c.s, 'he', true)", True),
        ("ENDSWITH(c.s, 'lo')", True), ("StringEquals(c.s, 'HELLO', true)", True), ("INDEX_OF(c.s, 'l')", 2),
        ("INDEX_OF(c.s, 'l', 3)", 3), ("INDEX_OF(c.s, 'z')", -1), ("LEFT(c.s, 2)", "He"), ("RIGHT(c.s, 2)", "lo"),
        ("RIGHT(c.s, 9)", "Hello"), ("LEFT(c.s, 0)", ""), ("LENGTH(c.s)", 5), ("LENGTH(1)", NOTHING),
        ("LOWER(c.s)", "hello"), ("UPPER(c.s)", "HELLO"), ("LTRIM(' a ')", "a "), ("RTRIM(' a ')", " a"),
        ("TRIM(' a ')", "a"), ("TRIM('xax', 'x')", "a"), ("REPLACE(c.s, 'l', 'LL')", "HeLLLLo"),
        ("REPLACE(c.s, '', 'x')", "Hello"), ("REPLICATE('ab', 2)", "abab"), ("REPLICATE('a', -1)", NOTHING),
        ("REPLICATE('a', 10001)", NOTHING), ("REVERSE(c.s)", "olleH"), ("SUBSTRING(c.s, 1, 3)", "ell"),
        ("SUBSTRING(c.s, 1, -1)", ""), ("STRING_SPLIT('a,b', ',')", ["a", "b"]), ("StringJoin(['a', 'b'], '-')", "a-b"),
        ("ToString(1.0)", "1"), ("ToString(true)", "true"), ("ToString([1])", "[1]"), ("ToString(c.no)", NOTHING),
        ("StringToNumber(' 1.50 ')", 1.5), ("StringToNumber('x')", NOTHING), ("StringToBoolean('true')", True),
        ("StringToNull('null')", None), ("StringToArray('[1, \"a\"]')", [1, "a"]), ("StringToObject('{\"a\": 1}')", {"a": 1}),
        ("StringToObject('[]')", NOTHING), ("REGEXMATCH(c.s, '^h.l+o$', 'i')", True), ("REGEXMATCH(c.s, '\\\\d')", False),
        ("REGEXMATCH(1, 'a')", NOTHING), ("'a' || 'b'", "ab"), ("'a' || 1", NOTHING),
    ],
    "arrays": [
        ("ARRAY_LENGTH(c.a)", 4), ("ARRAY_LENGTH(c.s)", NOTHING), ("ARRAY_CONCAT([1], [2], [3])", [1, 2, 3]),
        ("ARRAY_CONTAINS(c.a, 'b')", True), ("ARRAY_CONTAINS(c.a, {'k': 1})", False),
        ("ARRAY_CONTAINS(c.a, {'k': 1}, true)", True), ("ARRAY_CONTAINS(c.a, {'k': 1, 'q': 1}, true)", False),
        ("ARRAY_CONTAINS_ANY(c.a, 5, 'b')", True), ("ARRAY_CONTAINS_ALL(c.a, 1, 'b')", True),
        ("ARRAY_CONTAINS_ALL(c.a, 1, 5)", False), ("ARRAY_SLICE(c.a, 1, 2)", ["b", None]), ("ARRAY_SLICE(c.a, -1)", [{"k": 1, "l": 2}]),
        ("ARRAY_SLICE(c.a, 9)", []), ("SetIntersect([1, 2, 2], [2, 3])", [2]), ("SetUnion([1, 1], [2])", [1, 2]),
        ("SetDifference([1, 2], [2])", [1]), ("CHOOSE(2, 'a', 'b')", "b"), ("CHOOSE(3, 'a', 'b')", NOTHING),
        ("ObjectToArray({'a': 1})", [{"k": "a", "v": 1}]), ("ObjectToArray({'a': 1}, 'n', 'w')", [{"n": "a", "w": 1}]),
    ],
    "maths": [
        ("ABS(-2)", 2), ("CEILING(1.2)", 2), ("FLOOR(-1.2)", -2), ("ROUND(2.5)", 3), ("ROUND(-2.5)", -3),
        ("ROUND(2.345, 2)", 2.35), ("TRUNC(-2.7)", -2), ("SIGN(-9)", -1), ("SQRT(9)", 3), ("SQRT(-1)", NOTHING),
        ("SQUARE(3)", 9), ("POWER(2, 10)", 1024), ("POWER(0, -1)", NOTHING), ("POWER(-8, 0.5)", NOTHING), ("EXP(0)", 1),
        ("LOG(1)", 0), ("LOG(8, 2)", 3), ("LOG(0)", NOTHING), ("LOG10(1000)", 3), ("PI()", 3.141592653589793), ("SIN(0)", 0),
        ("COS(0)", 1), ("TAN(0)", 0), ("COT(0)", NOTHING), ("ACOS(1)", 0), ("ASIN(0)", 0), ("ATAN(0)", 0), ("ATN2(0, 1)", 0),
        ("DEGREES(PI())", 180), ("RADIANS(180)", 3.141592653589793), ("RAND() >= 0 AND RAND() < 1", True), ("ABS('a')", NOTHING),
        ("NumberBin(37, 10)", 30), ("IntAdd(1, 2)", 3), ("IntDiv(-7, 2)", -3), ("IntMod(-7, 2)", -1), ("IntDiv(1, 0)", NOTHING),
        ("IntBitLeftShift(1, 4)", 16), ("IntBitNot(0)", -1), ("IntAdd(1.5, 1)", NOTHING),
    ],
    "dates": [
        ("GetCurrentDateTime()", "2020-09-13T12:26:40.2500000Z"), ("GetCurrentTimestamp()", 1600000000250),
        ("GetCurrentTicks()", 16000000002500000), ("DateTimeAdd('mm', 1, '2020-01-31T00:00:00Z')", "2020-02-29T00:00:00.0000000Z"),
        ("DateTimeAdd('yyyy', -1, '2020-02-29T00:00:00Z')", "2019-02-28T00:00:00.0000000Z"),
        ("DateTimeAdd('hh', -1, '2020-01-01')", "2019-12-31T23:00:00.0000000Z"), ("DateTimeAdd('no', 1, '2020-01-01')", NOTHING),
        ("DateTimeAdd('dd', 1, 'no date')", NOTHING), ("DateTimeDiff('yyyy', '2028-01-01T01:02:03.1234527Z', '2020-01-03T01:02:03.1234567Z')", -8),
        ("DateTimeDiff('day', '2020-01-01T23:00:00Z', '2020-01-02T01:00:00Z')", 1), ("DateTimePart('dd', '2020-01-29T08:30:00Z')", 29),
        ("DateTimePart('weekday', '2020-01-05T00:00:00Z')", 1), ("DateTimePart('ns', '2020-01-01T00:00:00.0000001Z')", 100),
        ("DateTimeFromParts(2020, 9, 4)", "2020-09-04T00:00:00.0000000Z"), ("DateTimeFromParts(2020, 13, 4)", NOTHING),
        ("DateTimeBin('2021-06-28T17:24:29.2991234Z', 'hh', 12)", "2021-06-28T12:00:00.0000000Z"),
        ("DateTimeToTicks('1970-01-01T00:00:01Z')", 10000000), ("DateTimeToTimestamp('1970-01-01T00:00:01.5Z')", 1500),
        ("TicksToDateTime(10000000)", "1970-01-01T00:00:01.0000000Z"), ("TimestampToDateTime(1500)", "1970-01-01T00:00:01.5000000Z"),
        ("DateTimeToTimestamp('2020-01-01T02:00:00+02:00') = DateTimeToTimestamp('2020-01-01')", True), ("TicksToDateTime(1e300)", NOTHING),
    ],
    "space": [
        ("ST_DISTANCE({type: 'Point', coordinates: [0, 0]}, {type: 'Point', coordinates: [0, 1]}) BETWEEN 110000 AND 112000", True),
        ("ST_WITHIN({type: 'Point', coordinates: [1, 1]}, {type: 'Polygon', coordinates: [[[0,0],[0,2],[2,2],[2,0],[0,0]]]})", True),
        ("ST_WITHIN({type: 'Point', coordinates: [3, 1]}, {type: 'Polygon', coordinates: [[[0,0],[0,2],[2,2],[2,0],[0,0]]]})", False),
        ("ST_DISTANCE(1, 2)", NOTHING), ("ST_ISVALID({type: 'Point', coordinates: [0, 91]})", False),
        ("VectorDistance([1, 0], [0, 1])", 0), ("VectorDistance([1, 0], [1, 0], false, {'distanceFunction': 'euclidean'})", 0),
        ("VectorDistance([1, 2], [3, 4], true, {'distanceFunction': 'dotproduct'})", 11), ("VectorDistance([1], [1, 2])", NOTHING),
    ],
    "subqueries": [
        ("(SELECT VALUE COUNT(1) FROM a IN c.a)", 4), ("ARRAY(SELECT VALUE a FROM a IN c.a WHERE IS_NUMBER(a))", [1]),
        ("EXISTS(SELECT VALUE a FROM a IN c.a WHERE a = 'b')", True), ("EXISTS(SELECT VALUE a FROM a IN c.no)", False),
        ("(SELECT VALUE 1 WHERE false)", NOTHING), ("ARRAY(SELECT a.k, c.n FROM a IN c.a WHERE a.k = 1)", [{"k": 1, "n": 7}]),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"),
    [case for cases in CASES.values() for case in cases],
    ids=lambda value: str(value)[:60],
)
def test_expression(expression: str, expected: Any) -> None:
    """Each expression has its value, of the same type."""
    value = worth(expression)
    assert (value, type(value)) == (expected, type(expected)) or (
        isinstance(expected, float) and value == pytest.approx(expected)
    )
