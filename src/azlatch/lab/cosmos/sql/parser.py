"""Text to query: `parse` and what it refuses.

The parser is built when the first query comes (about a tenth of a second), and the last queries read are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.sql import faults
from azlatch.lab.cosmos.sql.ast import Query, depth_of

if TYPE_CHECKING:
    from lark import Lark

#: `maxSqlQueryInputLength` of the account's queryEngineConfiguration, characters.
MOST_TEXT = 262_144
#: Words and signs of one query: with 16,000 values, the most of one IN, it has about half of them.
MOST_WORDS = 65_536
#: Deepest nesting of expressions and subqueries; each level is a few frames of Python.
MOST_DEPTH = 100
#: `maxJoinsPerSqlQuery`.
MOST_JOINS = 10
#: Where the SDK wants the filter of a continuation; its own default is true (query_execution_info.py).
FILTER_HOLE = "{documentdb-formattableorderbyquery-filter}"

#: A string, a word or a sign.
_PIECE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\w@]+|[^\w\s]""")
_WORD = re.compile(r"\S{1,100}")


def parse(text: str) -> Query:
    """The query that a text is.

    Raises:
        ServiceError: 400 for what is none, with the place in the message.
    """
    if len(text) > MOST_TEXT:
        raise bad_request(f"The SQL query text exceeded the maximum limit of {MOST_TEXT} characters.")
    if len(text) > MOST_WORDS and sum(1 for _ in _PIECE.finditer(text)) > MOST_WORDS:
        raise bad_request(f"The SQL query has more than the {MOST_WORDS} words and signs that it may have.")
    return _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Query:
    from lark import exceptions

    text = text.replace(FILTER_HOLE, "true")
    try:
        query = _parser()(text)
    except exceptions.VisitError as error:
        if isinstance(error.orig_exc, ServiceError):
            raise error.orig_exc from None
        raise
    except exceptions.UnexpectedToken as error:
        if error.token.type == "$END":
            raise faults.ended(len(text)) from None
        raise faults.syntax(str(error.token), error.token.start_pos or 0) from None
    except exceptions.UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        word = _WORD.match(text, at)
        raise faults.syntax(word.group() if word else text[at : at + 1], at) from None
    if depth_of(query) > MOST_DEPTH:
        raise bad_request(f"The SQL query is nested more deeply than {MOST_DEPTH} levels.")
    return query


@lru_cache(maxsize=1)
def _parser() -> Callable[[str], Query]:
    from lark import Lark

    from azlatch.lab.cosmos.sql.build import Builder
    from azlatch.lab.cosmos.sql.grammar import GRAMMAR

    parser: Lark = Lark(
        GRAMMAR, parser="lalr", lexer="contextual", transformer=Builder(), maybe_placeholders=False
    )

    def read(text: str) -> Query:
        query: Any = parser.parse(text)
        assert isinstance(query, Query)
        return query

    return read
