"""The functions of SQL, by name."""

from __future__ import annotations

from azlatch.lab.cosmos.sql.functions.arrays import ARRAYS
from azlatch.lab.cosmos.sql.functions.checks import CHECKS
from azlatch.lab.cosmos.sql.functions.dates import DATES
from azlatch.lab.cosmos.sql.functions.matching import MATCHING
from azlatch.lab.cosmos.sql.functions.maths import MATHS
from azlatch.lab.cosmos.sql.functions.space import SPACE
from azlatch.lab.cosmos.sql.functions.strings import STRINGS
from azlatch.lab.cosmos.sql.functions.table import Context, Function

__all__ = ["FUNCTIONS", "Context", "Function"]

#: Every function, by its name in capitals. Aggregates are not among them.
FUNCTIONS: dict[str, Function] = {
    **CHECKS.functions,
    **ARRAYS.functions,
    **DATES.functions,
    **MATCHING.functions,
    **MATHS.functions,
    **SPACE.functions,
    **STRINGS.functions,
}
#: Other spellings of the same.
FUNCTIONS.update(
    {
        "STRING_SPLIT": FUNCTIONS["STRINGSPLIT"],
        "STRING_JOIN": FUNCTIONS["STRINGJOIN"],
    }
)
