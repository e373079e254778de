"""Functions on dates and times: ISO 8601 with seven digits of a second, ticks of 100 ns, or milliseconds."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from azlatch.lab.cosmos.sql.functions.table import Context, Table
from azlatch.lab.cosmos.sql.values import UNDEFINED, is_number

DATES = Table()

_TICKS_A_SECOND = 10_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_TEXT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,7}))?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_LEAST = (date(1, 1, 1).toordinal() - _EPOCH) * 86_400 * _TICKS_A_SECOND
_MOST = (date(9999, 12, 31).toordinal() - _EPOCH + 1) * 86_400 * _TICKS_A_SECOND - 1

_PARTS = {
    "year": ("year", "yyyy", "yy"),
    "month": ("month", "mm", "m"),
    "week": ("week", "ww", "wk"),
    "weekday": ("weekday", "dw", "w"),
    "day": ("day", "dd", "d"),
    "hour": ("hour", "hh"),
    "minute": ("minute", "mi", "n"),
    "second": ("second", "ss", "s"),
    "millisecond": ("millisecond", "ms"),
    "microsecond": ("microsecond", "mcs"),
    "nanosecond": ("nanosecond", "ns"),
}
_NAMES = {spelling: part for part, spellings in _PARTS.items() for spelling in spellings}

#: Ticks of the parts that always have as many.
_UNITS = {
    "week": 7 * 86_400 * _TICKS_A_SECOND,
    "day": 86_400 * _TICKS_A_SECOND,
    "hour": 3_600 * _TICKS_A_SECOND,
    "minute": 60 * _TICKS_A_SECOND,
    "second": _TICKS_A_SECOND,
    "millisecond": 10_000,
    "microsecond": 10,
}


def ticks_of(text: Any) -> int | None:
    """Ticks since 1970, None for what is no date."""
    found = _TEXT.fullmatch(text) if type(text) is str else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
    zone = found.group(8)
    if zone and zone != "Z":
        ahead = int(zone[1:3]) * 3_600 + int(zone[4:6]) * 60
        seconds += ahead if zone[0] == "-" else -ahead
    ticks = seconds * _TICKS_A_SECOND + int((found.group(7) or "0").ljust(7, "0"))
    return ticks if _LEAST <= ticks <= _MOST else None


def text_of_ticks(ticks: int) -> Any:
    """The date as text, undefined beyond the years 1 to 9999."""
    if not _LEAST <= ticks <= _MOST:
        return UNDEFINED
    seconds, fraction = divmod(ticks, _TICKS_A_SECOND)
    days, second = divmod(seconds, 86_400)
    day = date.fromordinal(days + _EPOCH)
    clock = f"{second // 3_600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{day.year:04}-{day.month:02}-{day.day:02}T{clock}.{fraction:07}Z"


def _now(context: Context) -> int:
    return round(context.now * _TICKS_A_SECOND)


for _name in ("GetCurrentDateTime", "GetCurrentDateTimeStatic"):
    DATES.add(_name, 0, context=True)(lambda context: text_of_ticks(_now(context)))
for _name in ("GetCurrentTicks", "GetCurrentTicksStatic"):
    DATES.add(_name, 0, context=True)(_now)
for _name in ("GetCurrentTimestamp", "GetCurrentTimestampStatic"):
    DATES.add(_name, 0, context=True)(lambda context: _now(context) // 10_000)


@DATES.add("DateTimeToTicks", 1)
def _to_ticks(text: Any) -> Any:
    ticks = ticks_of(text)
    return UNDEFINED if ticks is None else ticks


@DATES.add("DateTimeToTimestamp", 1)
def _to_timestamp(text: Any) -> Any:
    ticks = ticks_of(text)
    return UNDEFINED if ticks is None else ticks // 10_000


@DATES.add("TicksToDateTime", 1)
def _from_ticks(ticks: Any) -> Any:
    return text_of_ticks(int(ticks)) if is_number(ticks) else UNDEFINED


@DATES.add("TimestampToDateTime", 1)
def _from_timestamp(milliseconds: Any) -> Any:
    return text_of_ticks(int(milliseconds) * 10_000) if is_number(milliseconds) else UNDEFINED


def _part(name: Any) -> str | None:
    return _NAMES.get(name.lower()) if type(name) is str else None


@DATES.add("DateTimeAdd", 3)
def _add(name: Any, count: Any, text: Any) -> Any:
    part, ticks = _part(name), ticks_of(text)
    if part is None or part == "weekday" or ticks is None or not is_number(count) or abs(count) > 2**53:
        return UNDEFINED
    whole = int(count)
    if part == "nanosecond":
        return text_of_ticks(ticks + int(whole / 100))
    if part in _UNITS:
        return text_of_ticks(ticks + whole * _UNITS[part])
    days, rest = divmod(ticks, _UNITS["day"])
    day = date.fromordinal(days + _EPOCH)
    months = day.year * 12 + day.month - 1 + whole * (12 if part == "year" else 1)
    year, month = divmod(months, 12)
    if not 1 <= year <= 9999:
        return UNDEFINED
    # The last day of a shorter month stands for those that it does not have.
    for last in range(day.day, 27, -1):
        try:
            days = date(year, month + 1, last).toordinal() - _EPOCH
            break
        except ValueError:
            continue
    else:
        days = date(year, month + 1, min(day.day, 28)).toordinal() - _EPOCH
    return text_of_ticks(days * _UNITS["day"] + rest)


def _place(part: str, ticks: int) -> int:
    """The number of the year, month, day … since 1970 that a time is in."""
    if part in ("year", "month"):
        day = date.fromordinal(ticks // _UNITS["day"] + _EPOCH)
        return day.year if part == "year" else day.year * 12 + day.month
    if part == "nanosecond":
        return ticks * 100
    if part == "week":
        # Weeks start on Sunday; the first of January 1970 was a Thursday.
        return (ticks // _UNITS["day"] + 4) // 7
    return ticks // _UNITS["day" if part == "weekday" else part]


@DATES.add("DateTimeDiff", 3)
def _diff(name: Any, start: Any, end: Any) -> Any:
    part, first, last = _part(name), ticks_of(start), ticks_of(end)
    if part is None or first is None or last is None:
        return UNDEFINED
    return _place(part, last) - _place(part, first)


@DATES.add("DateTimePart", 2)
def _part_of(name: Any, text: Any) -> Any:
    part, ticks = _part(name), ticks_of(text)
    if part is None or ticks is None:
        return UNDEFINED
    days, rest = divmod(ticks, _UNITS["day"])
    day = date.fromordinal(days + _EPOCH)
    second, fraction = divmod(rest, _TICKS_A_SECOND)
    first = date(day.year, 1, 1)
    return {
        "year": day.year,
        "month": day.month,
        "day": day.day,
        "weekday": day.isoweekday() % 7 + 1,
        "week": ((day - first).days + first.isoweekday() % 7) // 7 + 1,
        "hour": second // 3_600,
        "minute": second // 60 % 60,
        "second": second % 60,
        "millisecond": fraction // 10_000,
        "microsecond": fraction // 10,
        "nanosecond": fraction * 100,
    }[part]


@DATES.add("DateTimeFromParts", 3, 7)
def _from_parts(*parts: Any) -> Any:
    if not all(is_number(each) and each == int(each) and each >= 0 for each in parts):
        return UNDEFINED
    year, month, day, hour, minute, second, fraction = (*map(int, parts), 0, 0, 0, 0)[:7]
    if hour > 23 or minute > 59 or second > 59 or fraction >= _TICKS_A_SECOND:
        return UNDEFINED
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except (ValueError, OverflowError):
        return UNDEFINED
    return text_of_ticks((days * 86_400 + hour * 3_600 + minute * 60 + second) * _TICKS_A_SECOND + fraction)


@DATES.add("DateTimeBin", 2, 4)
def _bin(text: Any, name: Any, size: Any = 1, origin: Any = "1970-01-01T00:00:00.0000000Z") -> Any:
    ticks, part, start = ticks_of(text), _part(name), ticks_of(origin)
    if ticks is None or start is None or not is_number(size) or size != int(size) or not 0 < size < 2**31:
        return UNDEFINED
    if part not in _UNITS:
        return UNDEFINED
    unit = _UNITS[part] * int(size)
    return text_of_ticks(start + (ticks - start) // unit * unit)
