"""Expressions to functions of Python, once per query, so that a row costs calls and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from azlatch.lab.cosmos.sql import ast, faults
from azlatch.lab.cosmos.sql.aggregate import AGGREGATES
from azlatch.lab.cosmos.sql.functions import FUNCTIONS, Context
from azlatch.lab.cosmos.sql.like import Pattern, pattern_of
from azlatch.lab.cosmos.sql.operators import OPERATORS, UNARY, concatenate, less_or_equal, negate
from azlatch.lab.cosmos.sql.scope import Scope, Slots
from azlatch.lab.cosmos.sql.values import UNDEFINED, equal, is_number, size_of

#: The values of the names of a query while it looks at one row.
Row = list[Any]
Evaluate = Callable[[Row], Any]


class Grouping(Protocol):
    """What an expression beside GROUP BY or aggregates may read instead of rows."""

    def substitute(self, node: ast.Expression) -> Evaluate | None:
        """A reader for an aggregate or an expression of GROUP BY; None for anything else."""


class Expressions:
    """Turns the expressions of one scope into functions, and counts what one evaluation costs."""

    def __init__(
        self,
        scope: Scope,
        slots: Slots,
        context: Context,
        parameters: Mapping[str, Any],
        run: Callable[[ast.Query, Scope], Callable[[Row], Iterator[Any]]],
    ) -> None:
        self.scope = scope
        self.slots = slots
        self.context = context
        self.parameters = parameters
        self.run = run
        self.grouping: Grouping | None = None
        #: Parts so far, which is what a row costs.
        self.cost = 0

    def make(self, node: ast.Expression) -> Evaluate:
        """The function of an expression."""
        self.cost += 1
        if self.grouping is not None:
            substitute = self.grouping.substitute(node)
            if substitute is not None:
                return substitute
        method: Callable[[Any], Evaluate] = getattr(self, f"_{type(node).__name__.lower()}")
        return method(node)

    # -- values

    def _constant(self, node: ast.Constant) -> Evaluate:
        value = node.value
        return lambda _: value

    def _undefined(self, _node: ast.Undefined) -> Evaluate:
        return lambda _: UNDEFINED

    def _parameter(self, node: ast.Parameter) -> Evaluate:
        value = self.value_of(node)
        return lambda _: value

    def value_of(self, node: ast.Parameter) -> Any:
        """The value of a parameter. Raises ServiceError (400) if it did not come with the request."""
        if node.name not in self.parameters:
            raise faults.no_parameter(node.name, node.start)
        return self.parameters[node.name]

    def _name(self, node: ast.Name) -> Evaluate:
        slot = self.scope.resolve(node)
        if self.grouping is not None:
            raise faults.refused(
                f"Property reference '{node.name[:100]}' is invalid in the select list because it is not "
                "contained in either an aggregate function or the GROUP BY clause."
            )
        return lambda row: row[slot]

    def _member(self, node: ast.Member) -> Evaluate:
        key = node.key
        if isinstance(node.base, ast.Name) and self.grouping is None:
            slot = self.scope.resolve(node.base)

            def of_name(row: Row) -> Any:
                value = row[slot]
                return value.get(key, UNDEFINED) if type(value) is dict else UNDEFINED

            return of_name
        base = self.make(node.base)

        def of_value(row: Row) -> Any:
            value = base(row)
            return value.get(key, UNDEFINED) if type(value) is dict else UNDEFINED

        return of_value

    def _index(self, node: ast.Index) -> Evaluate:
        base, key = self.make(node.base), self.make(node.key)

        def evaluate(row: Row) -> Any:
            value, at = base(row), key(row)
            if type(value) is dict:
                return value.get(at, UNDEFINED) if type(at) is str else UNDEFINED
            if type(value) is list and is_number(at) and 0 <= at < len(value) and at == int(at):
                return value[int(at)]
            return UNDEFINED

        return evaluate

    def _arrayliteral(self, node: ast.ArrayLiteral) -> Evaluate:
        items = [self.make(each) for each in node.items]
        return lambda row: [value for each in items if (value := each(row)) is not UNDEFINED]

    def _objectliteral(self, node: ast.ObjectLiteral) -> Evaluate:
        items = [(key, self.make(each)) for key, each in node.items]
        return lambda row: {key: value for key, each in items if (value := each(row)) is not UNDEFINED}

    # -- operators

    def _unary(self, node: ast.Unary) -> Evaluate:
        work, operand = UNARY[node.operator], self.make(node.operand)
        return lambda row: work(operand(row))

    def _binary(self, node: ast.Binary) -> Evaluate:
        left, right = self.make(node.left), self.make(node.right)
        if node.operator == "||":
            meter = self.context.meter
            return lambda row: concatenate(meter, left(row), right(row))
        work = OPERATORS[node.operator]
        if isinstance(node.right, ast.Constant | ast.Parameter):
            value = right([])
            if node.operator == "=" and type(value) is str:
                return lambda row: UNDEFINED if (one := left(row)) is UNDEFINED else one == value
            return lambda row: work(left(row), value)
        return lambda row: work(left(row), right(row))

    def _logic(self, node: ast.Logic) -> Evaluate:
        operands = [self.make(each) for each in node.operands]
        # One operand of this value decides, wherever it stands and whatever the others are.
        decisive = node.operator == "OR"

        def evaluate(row: Row) -> Any:
            known = True
            for each in operands:
                value = each(row)
                if value is decisive:
                    return decisive
                if type(value) is not bool:
                    known = False
            return not decisive if known else UNDEFINED

        return evaluate

    def _coalesce(self, node: ast.Coalesce) -> Evaluate:
        left, right = self.make(node.left), self.make(node.right)
        return lambda row: right(row) if (value := left(row)) is UNDEFINED else value

    def _conditional(self, node: ast.Conditional) -> Evaluate:
        condition, yes, no = self.make(node.condition), self.make(node.yes), self.make(node.no)
        return lambda row: yes(row) if condition(row) is True else no(row)

    def _between(self, node: ast.Between) -> Evaluate:
        operand, low, high = self.make(node.operand), self.make(node.low), self.make(node.high)

        def evaluate(row: Row) -> Any:
            value = operand(row)
            above, below = less_or_equal(low(row), value), less_or_equal(value, high(row))
            if above is False or below is False:
                return False
            return True if above is True and below is True else UNDEFINED

        return _negated(evaluate) if node.negated else evaluate

    def _in(self, node: ast.In) -> Evaluate:
        operand = self.make(node.operand)
        choices = [self.make(each) for each in node.choices]
        meter = self.context.meter

        def evaluate(row: Row) -> Any:
            value = operand(row)
            if value is UNDEFINED:
                return UNDEFINED
            return any(equal(value, each(row)) for each in choices)

        if all(isinstance(each, ast.Constant | ast.Parameter) for each in node.choices):
            simple = [each([]) for each in choices]
            texts = frozenset(each for each in simple if type(each) is str)
            rest = [each for each in simple if type(each) is not str]
            self.cost -= len(choices)

            def among(row: Row) -> Any:
                value = operand(row)
                if type(value) is str:
                    return value in texts
                if value is UNDEFINED:
                    return UNDEFINED
                meter.spend(len(rest))
                return any(equal(value, each) for each in rest)

            evaluate = among
        return _negated(evaluate) if node.negated else evaluate

    def _like(self, node: ast.Like) -> Evaluate:
        operand, pattern = self.make(node.operand), self.make(node.pattern)
        escape, meter = node.escape, self.context.meter
        made: Pattern | None = None
        if isinstance(node.pattern, ast.Constant | ast.Parameter) and type(pattern([])) is str:
            made = pattern_of(pattern([]), escape)

        def evaluate(row: Row) -> Any:
            text, wanted = operand(row), pattern(row)
            if type(text) is not str or type(wanted) is not str:
                return UNDEFINED
            if made is None:
                meter.spend(len(wanted))
            fits = made or pattern_of(wanted, escape)
            meter.spend(fits.cost(text))
            return fits.matches(text)

        return _negated(evaluate) if node.negated else evaluate

    # -- functions and subqueries

    def _call(self, node: ast.Call) -> Evaluate:
        name = node.name.upper()
        if node.udf:
            raise faults.refused(
                f"User-defined functions such as 'udf.{node.name[:100]}' do not run in the lab."
            )
        if name in AGGREGATES:
            raise faults.refused("Aggregates are only allowed in the select list, and not inside each other.")
        function = FUNCTIONS.get(name)
        if function is None:
            raise faults.unknown_function(node.name, node.start)
        count = len(node.arguments)
        if count < function.least or (function.most is not None and count > function.most):
            raise faults.arguments(function.name, function.least, function.most, node.start)
        apply, strict = function.apply, function.strict
        if function.context:
            context, inner = self.context, apply

            def apply(*values: Any) -> Any:
                return inner(context, *values)

        arguments = [self.make(each) for each in node.arguments]
        if count == 1 and strict:
            only = arguments[0]
            return lambda row: UNDEFINED if (value := only(row)) is UNDEFINED else apply(value)

        def evaluate(row: Row) -> Any:
            values = [each(row) for each in arguments]
            if strict and any(value is UNDEFINED for value in values):
                return UNDEFINED
            return apply(*values)

        return evaluate

    def _subquery(self, node: ast.Subquery) -> Evaluate:
        grouping, self.grouping = self.grouping, None
        run = self.run(node.query, self.scope)
        self.grouping = grouping
        meter = self.context.meter

        def exists(row: Row) -> Any:
            return any(True for _ in run(row))

        def array(row: Row) -> Any:
            found = []
            for value in run(row):
                meter.hold(size_of(value))
                found.append(value)
            # What one row made is let go with the row.
            meter.held -= sum(map(size_of, found))
            return found

        def scalar(row: Row) -> Any:
            found: Any = UNDEFINED
            for at, value in enumerate(run(row)):
                if at:
                    raise faults.refused(
                        "The cardinality of a scalar subquery result set cannot be greater than one."
                    )
                found = value
            return found

        return {"exists": exists, "array": array, "scalar": scalar}[node.kind]


def _negated(evaluate: Evaluate) -> Evaluate:
    return lambda row: negate(evaluate(row))
