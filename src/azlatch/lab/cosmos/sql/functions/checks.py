"""Functions that ask for the type of a value, or choose between values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from azlatch.lab.cosmos.sql.functions.table import Table
from azlatch.lab.cosmos.sql.values import UNDEFINED, double, is_number

CHECKS = Table()


def _is(name: str, test: Callable[[Any], bool]) -> None:
    CHECKS.add(name, 1, strict=False)(test)


_is("IS_ARRAY", lambda value: type(value) is list)
_is("IS_BOOL", lambda value: type(value) is bool)
_is("IS_DEFINED", lambda value: value is not UNDEFINED)
_is("IS_FINITE_NUMBER", lambda value: is_number(value) and math.isfinite(double(value)))
_is("IS_INTEGER", lambda value: is_number(value) and value == math.floor(value) and abs(value) < 2**63)
_is("IS_NULL", lambda value: value is None)
_is("IS_NUMBER", is_number)
_is("IS_OBJECT", lambda value: type(value) is dict)
_is("IS_PRIMITIVE", lambda value: value is None or type(value) in (bool, int, float, str))
_is("IS_STRING", lambda value: type(value) is str)


@CHECKS.add("IIF", 3, strict=False)
def _iif(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition is True else no
