"""RegexMatch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from azlatch.lab.cosmos.sql import faults
from azlatch.lab.cosmos.sql.functions.table import Context, Table
from azlatch.lab.cosmos.sql.regex import Regex, RegexError, regex_of
from azlatch.lab.cosmos.sql.values import UNDEFINED

MATCHING = Table()


@MATCHING.add("RegexMatch", 2, 3, context=True)
def _regex_match(context: Context, text: Any, pattern: Any, flags: Any = "") -> Any:
    if type(text) is not str or type(pattern) is not str or type(flags) is not str:
        return UNDEFINED
    return _read(pattern, flags).search(text, context.meter)


@lru_cache(maxsize=64)
def _read(pattern: str, flags: str) -> Regex:
    try:
        return regex_of(pattern, flags)
    except RegexError as error:
        raise faults.refused(f"The regular expression is not one that RegexMatch runs: {error}.") from None
