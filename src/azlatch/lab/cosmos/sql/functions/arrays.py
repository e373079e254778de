"""Functions on arrays and objects."""

from __future__ import annotations

from typing import Any

from azlatch.lab.cosmos.sql.functions.table import Context, Table
from azlatch.lab.cosmos.sql.values import UNDEFINED, equal, identity, is_number

ARRAYS = Table()


@ARRAYS.add("ARRAY_CONCAT", 2, None, context=True)
def _concat(context: Context, *arrays: Any) -> Any:
    if not all(type(each) is list for each in arrays):
        return UNDEFINED
    context.meter.spend(sum(map(len, arrays)))
    return [each for array in arrays for each in array]


def _holds(value: Any, wanted: Any) -> bool:
    """Whether an object has all that another one has, at any depth."""
    if type(wanted) is dict:
        return type(value) is dict and all(
            key in value and _holds(value[key], each) for key, each in wanted.items()
        )
    return equal(value, wanted)


@ARRAYS.add("ARRAY_CONTAINS", 2, 3, context=True)
def _contains(context: Context, array: Any, wanted: Any, partial: Any = False) -> Any:
    if type(array) is not list or type(partial) is not bool:
        return UNDEFINED
    context.meter.spend(len(array))
    test = _holds if partial else equal
    return any(test(each, wanted) for each in array)


@ARRAYS.add("ARRAY_CONTAINS_ANY", 2, None, strict=False, context=True)
def _contains_any(context: Context, array: Any, *wanted: Any) -> Any:
    if type(array) is not list:
        return UNDEFINED
    context.meter.spend(len(array))
    have = {identity(each) for each in array}
    return any(each is not UNDEFINED and identity(each) in have for each in wanted)


@ARRAYS.add("ARRAY_CONTAINS_ALL", 2, None, strict=False, context=True)
def _contains_all(context: Context, array: Any, *wanted: Any) -> Any:
    if type(array) is not list:
        return UNDEFINED
    context.meter.spend(len(array))
    have = {identity(each) for each in array}
    return all(each is not UNDEFINED and identity(each) in have for each in wanted)


@ARRAYS.add("ARRAY_LENGTH", 1)
def _length(array: Any) -> Any:
    return len(array) if type(array) is list else UNDEFINED


@ARRAYS.add("ARRAY_SLICE", 2, 3, context=True)
def _slice(context: Context, array: Any, start: Any, count: Any = 2**53) -> Any:
    if type(array) is not list or not is_number(start) or not is_number(count):
        return UNDEFINED
    if start != int(start) or count != int(count):
        return UNDEFINED
    first = int(start) if start >= 0 else max(0, len(array) + int(start))
    context.meter.spend(len(array))
    return array[first : first + int(count)] if count > 0 else []


@ARRAYS.add("CHOOSE", 2, None, strict=False)
def _choose(place: Any, *values: Any) -> Any:
    if not is_number(place) or place != int(place) or not 1 <= place <= len(values):
        return UNDEFINED
    return values[int(place) - 1]


@ARRAYS.add("ObjectToArray", 1, 3, context=True)
def _object_to_array(context: Context, value: Any, key: Any = "k", name: Any = "v") -> Any:
    if type(value) is not dict or type(key) is not str or type(name) is not str:
        return UNDEFINED
    context.meter.spend(len(value))
    return [{key: each, name: value[each]} for each in value]


@ARRAYS.add("SetIntersect", 2, context=True)
def _intersect(context: Context, left: Any, right: Any) -> Any:
    if type(left) is not list or type(right) is not list:
        return UNDEFINED
    context.meter.spend(len(left) + len(right))
    common = {identity(each) for each in right}
    return _first_of_each([each for each in left if identity(each) in common])


@ARRAYS.add("SetUnion", 2, context=True)
def _union(context: Context, left: Any, right: Any) -> Any:
    if type(left) is not list or type(right) is not list:
        return UNDEFINED
    context.meter.spend(len(left) + len(right))
    return _first_of_each([*left, *right])


@ARRAYS.add("SetDifference", 2, context=True)
def _difference(context: Context, left: Any, right: Any) -> Any:
    if type(left) is not list or type(right) is not list:
        return UNDEFINED
    context.meter.spend(len(left) + len(right))
    gone = {identity(each) for each in right}
    return _first_of_each([each for each in left if identity(each) not in gone])


def _first_of_each(values: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for each in values:
        seen.setdefault(identity(each), each)
    return list(seen.values())
