"""Functions on strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from azlatch.lab.cosmos.sql.functions.table import Context, Table
from azlatch.lab.cosmos.sql.values import UNDEFINED, double, is_number, number
from azlatch.lab.cosmos.wire import decode, encode

STRINGS = Table()

#: Longest result of REPLICATE, characters; beyond it is undefined, as the service has it.
_MOST_REPLICATED = 10_000


@STRINGS.add("CONCAT", 2, None, context=True)
def _concat(context: Context, *texts: Any) -> Any:
    if not all(type(each) is str for each in texts):
        return UNDEFINED
    context.meter.check_text(sum(map(len, texts)))
    return "".join(texts)


def _tested(name: str, test: Callable[[str, str], bool]) -> None:
    """A test of two strings, with the flag that leaves upper and lower case aside."""

    def applied(context: Context, text: Any, part: Any, ignore: Any = False) -> Any:
        if type(text) is not str or type(part) is not str or type(ignore) is not bool:
            return UNDEFINED
        context.meter.spend(len(text) >> 4)
        return test(text.lower(), part.lower()) if ignore else test(text, part)

    STRINGS.add(name, 2, 3, context=True)(applied)


_tested("CONTAINS", lambda text, part: part in text)
_tested("ENDSWITH", str.endswith)
_tested("STARTSWITH", str.startswith)
_tested("StringEquals", str.__eq__)


@STRINGS.add("CONTAINS_ANY_CI", 2, None, context=True)
def _contains_any_ci(context: Context, text: Any, *parts: Any) -> Any:
    if type(text) is not str or not all(type(each) is str for each in parts):
        return UNDEFINED
    context.meter.spend(len(parts) * (len(text) >> 4))
    return any(each.lower() in text.lower() for each in parts)


@STRINGS.add("CONTAINS_ALL_CI", 2, None, context=True)
def _contains_all_ci(context: Context, text: Any, *parts: Any) -> Any:
    if type(text) is not str or not all(type(each) is str for each in parts):
        return UNDEFINED
    context.meter.spend(len(parts) * (len(text) >> 4))
    return all(each.lower() in text.lower() for each in parts)


@STRINGS.add("INDEX_OF", 2, 3, context=True)
def _index_of(context: Context, text: Any, part: Any, start: Any = 0) -> Any:
    if (
        type(text) is not str
        or type(part) is not str
        or not is_number(start)
        or start != int(start)
        or start < 0
    ):
        return UNDEFINED
    context.meter.spend(len(text) >> 4)
    return text.find(part, int(start))


@STRINGS.add("LEFT", 2)
def _left(text: Any, count: Any) -> Any:
    if type(text) is not str or not is_number(count):
        return UNDEFINED
    return text[: max(0, int(count))]


@STRINGS.add("RIGHT", 2)
def _right(text: Any, count: Any) -> Any:
    if type(text) is not str or not is_number(count):
        return UNDEFINED
    return text[max(0, len(text) - int(count)) :] if count > 0 else ""


@STRINGS.add("LENGTH", 1)
def _length(text: Any) -> Any:
    return len(text) if type(text) is str else UNDEFINED


def _changed(name: str, change: Callable[[str], str]) -> None:
    def applied(context: Context, text: Any) -> Any:
        if type(text) is not str:
            return UNDEFINED
        context.meter.check_text(len(text))
        return change(text)

    STRINGS.add(name, 1, context=True)(applied)


_changed("LOWER", str.lower)
_changed("UPPER", str.upper)
_changed("REVERSE", lambda text: text[::-1])


def _trimmed(name: str, trim: Callable[..., str]) -> None:
    """Without blanks at its ends, or without the characters that are given."""

    def applied(context: Context, text: Any, characters: Any = None) -> Any:
        if type(text) is not str or not (characters is None or type(characters) is str):
            return UNDEFINED
        context.meter.check_text(len(text))
        return trim(text) if characters is None else trim(text, characters)

    STRINGS.add(name, 1, 2, context=True)(applied)


_trimmed("LTRIM", str.lstrip)
_trimmed("RTRIM", str.rstrip)
_trimmed("TRIM", str.strip)


@STRINGS.add("REPLACE", 3, context=True)
def _replace(context: Context, text: Any, old: Any, new: Any) -> Any:
    if not (type(text) is str and type(old) is str and type(new) is str):
        return UNDEFINED
    if not old:
        return text
    context.meter.check_text(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


@STRINGS.add("REPLICATE", 2, context=True)
def _replicate(context: Context, text: Any, count: Any) -> Any:
    if type(text) is not str or not is_number(count) or count < 0 or count != int(count):
        return UNDEFINED
    if len(text) * count > _MOST_REPLICATED:
        return UNDEFINED
    context.meter.check_text(len(text) * int(count))
    return text * int(count) if text else ""


@STRINGS.add("SUBSTRING", 3)
def _substring(text: Any, start: Any, count: Any) -> Any:
    if type(text) is not str or not is_number(start) or not is_number(count):
        return UNDEFINED
    first = int(start)
    if first < 0 or count <= 0:
        return ""
    return text[first : first + int(count)]


@STRINGS.add("STRINGSPLIT", 2, context=True)
def _split(context: Context, text: Any, separator: Any) -> Any:
    if type(text) is not str or type(separator) is not str or not separator:
        return UNDEFINED
    context.meter.check_text(len(text))
    return text.split(separator)


@STRINGS.add("STRINGJOIN", 2, context=True)
def _join(context: Context, array: Any, separator: Any) -> Any:
    if type(array) is not list or type(separator) is not str or not all(type(each) is str for each in array):
        return UNDEFINED
    context.meter.check_text(sum(map(len, array)) + len(separator) * max(0, len(array) - 1))
    return separator.join(array)


@STRINGS.add("SUBSTRING_AFTER", 2)
def _after(text: Any, mark: Any) -> Any:
    if type(text) is not str or type(mark) is not str:
        return UNDEFINED
    return text.partition(mark)[2] if mark else text


@STRINGS.add("SUBSTRING_BEFORE", 2)
def _before(text: Any, mark: Any) -> Any:
    if type(text) is not str or type(mark) is not str:
        return UNDEFINED
    before, found, _ = text.partition(mark) if mark else ("", "", "")
    return before if found else ""


@STRINGS.add("ToString", 1, context=True)
def _to_string(context: Context, value: Any) -> Any:
    if type(value) is str:
        return value
    text = shown(value) if is_number(value) else encode(value).decode()
    context.meter.check_text(len(text))
    return text


def shown(value: float) -> str:
    """A number as JSON text in the way of the service: without an exponent where JavaScript has none."""
    return str(int(value)) if abs(value) < 1e21 and value == int(value) else repr(double(value))


def _read(text: Any) -> Any:
    """The JSON value in a string, blanks around it aside; undefined if it is none."""
    if type(text) is not str:
        return UNDEFINED
    try:
        return decode(text.encode())
    except (ValueError, msgspec.DecodeError, UnicodeError):
        return UNDEFINED


def _parsed(name: str, fits: Callable[[Any], bool]) -> None:
    def applied(context: Context, text: Any) -> Any:
        if type(text) is str:
            context.meter.check_text(len(text))
        value = _read(text)
        if not fits(value):
            return UNDEFINED
        return number(value) if is_number(value) else value

    STRINGS.add(name, 1, context=True)(applied)


_parsed("StringToArray", lambda value: type(value) is list)
_parsed("StringToBoolean", lambda value: type(value) is bool)
_parsed("StringToNull", lambda value: value is None)
_parsed("StringToNumber", is_number)
_parsed("StringToObject", lambda value: type(value) is dict)
