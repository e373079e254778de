"""A query as it was read: frozen, comparable, without positions in what makes two of them equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Undefined:
    """The word `undefined`."""


@dataclass(frozen=True, slots=True)
class Constant:
    """null, true, false, a number or a string."""

    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        # 1 and true are equal to Python.
        return (
            isinstance(other, Constant) and type(self.value) is type(other.value) and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that comes with the request; the name has its @."""

    name: str
    start: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """What FROM or JOIN gave a name to."""

    name: str
    start: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Member:
    """A property by a name that the text tells: `c.a`, `c["a"]`."""

    base: Expression
    key: str


@dataclass(frozen=True, slots=True)
class Index:
    """A property or an element by a value: `c[0]`, `c[@name]`."""

    base: Expression
    key: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    """`-`, `+`, `~` or `NOT`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, bits, comparison or `||`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logic:
    """Two or more operands of one `AND` or `OR`: flat, since applications write hundreds of them."""

    operator: Literal["AND", "OR"]
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Coalesce:
    """`??`: the right one where the left one is undefined."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional:
    """`a ? b : c`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Between:
    """`a BETWEEN low AND high`, both ends included."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    """`a IN (…)`."""

    operand: Expression
    choices: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """`a LIKE pattern ESCAPE character`."""

    operand: Expression
    pattern: Expression
    escape: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function; the name as it was written."""

    name: str
    arguments: tuple[Expression, ...]
    udf: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """`[a, b]`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ObjectLiteral:
    """`{"a": b}`."""

    items: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query as a value: its only result, all of them as an array, or whether there is one."""

    kind: Literal["scalar", "array", "exists"]
    query: Query


Expression = (
    Undefined
    | Constant
    | Parameter
    | Name
    | Member
    | Index
    | Unary
    | Binary
    | Logic
    | Coalesce
    | Conditional
    | Between
    | In
    | Like
    | Call
    | ArrayLiteral
    | ObjectLiteral
    | Subquery
)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One of a select list. `alias` is "" where the text has none."""

    value: Expression
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What FROM or JOIN names: a path or a subquery; `each` for the elements of the array that it is."""

    origin: Expression | Query
    alias: str
    each: bool = False


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of ORDER BY."""

    value: Expression
    descending: bool = False


#: TOP, OFFSET and LIMIT take a number or a parameter.
Count = int | Parameter


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT with all that belongs to it.

    `items` is empty for `SELECT *`; for `SELECT VALUE` it has one, without an alias.
    """

    items: tuple[SelectItem, ...] = ()
    value: bool = False
    distinct: bool = False
    top: Count | None = None
    sources: tuple[Source, ...] = ()
    where: Expression | None = None
    group: tuple[Expression, ...] = ()
    order: tuple[OrderKey, ...] = ()
    offset: Count | None = None
    limit: Count | None = None

    @property
    def star(self) -> bool:
        """Whether it is `SELECT *`."""
        return not self.items

    def point_ids(self, parameters: dict[str, Any] | None = None) -> frozenset[str] | None:
        """The only ids that an item in the result can have, None where that is not provable."""
        from azlatch.lab.cosmos.sql.points import point_values  # it needs this module

        return point_values(self, "id", parameters or {})


Node = Any  # any dataclass of this module


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, queries included."""
    for each in fields(node):
        yield from _nodes(getattr(node, each.name))


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, tuple):
        for each in value:
            yield from _nodes(each)
    elif hasattr(value, "__dataclass_fields__"):
        yield value


def depth_of(node: Node) -> int:
    """How deeply it is nested; counted without recursion, since it guards recursion."""
    deepest = 0
    stack = [(node, 1)]
    while stack:
        at, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((each, depth + 1) for each in children(at))
    return deepest
