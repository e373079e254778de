"""Regular expressions whose time is bounded by text times pattern: all ways through are walked at once.

Understood are literals, classes, ., ^, $, \\b, \\B, groups, |, * + ? {m,n}, and the flags i, m, s, x. What
needs more (references back, looking around) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from azlatch.lab.cosmos.sql.limits import Meter

#: Longest pattern, characters; most states that it may become; deepest nesting of its groups.
MOST_PATTERN, MOST_STATES, MOST_NESTED = 2_000, 4_000, 50

Test = Callable[[str], bool]
#: Asks about the place between two characters, either of them "" at an end of the text.
Edge = Callable[[str, str], bool]


class RegexError(ValueError):
    """No pattern, or one that is not understood here."""


@dataclass(slots=True)
class _State:
    """One state: takes a character that passes `test`, or goes on at once where `edge` allows it."""

    test: Test | None = None
    edge: Edge | None = None
    after: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern that was read."""

    states: list[_State]
    first: int
    final: int

    def search(self, text: str, meter: Meter) -> bool:
        """Whether it is anywhere in a text."""
        current: set[int] = set()
        for at in range(len(text) + 1):
            before, each = text[at - 1] if at else "", text[at] if at < len(text) else ""
            current = self._reach([*current, self.first], before, each)
            meter.spend(1 + len(current))
            if self.final in current:
                return True
            if each:
                states = self.states
                current = {
                    after
                    for one in current
                    if (test := states[one].test) is not None and test(each)
                    for after in states[one].after
                }
        return False

    def _reach(self, start: Iterable[int], before: str, each: str) -> set[int]:
        found: set[int] = set()
        stack = list(start)
        while stack:
            at = stack.pop()
            if at in found:
                continue
            found.add(at)
            state = self.states[at]
            if state.test is None and (state.edge is None or state.edge(before, each)):
                stack.extend(state.after)
        return found


def _word(each: str) -> bool:
    return each.isalnum() or each == "_"


_CLASSES: dict[str, Test] = {"d": str.isdecimal, "w": _word, "s": str.isspace}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0", "a": "\a", "e": "\x1b"}

# A part of a pattern makes states that lead to the given one, and tells which is its first.
_Part = Callable[[int], int]


class _Reader:
    def __init__(self, pattern: str, flags: str) -> None:
        if len(pattern) > MOST_PATTERN:
            raise RegexError("too long")
        if set(flags) - set("imsx"):
            raise RegexError("unknown flag")
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.ignore_case, self.lines = "i" in flags, "m" in flags
        self.dot_all, self.spaced = "s" in flags, "x" in flags
        self.states: list[_State] = []
        self.made = 0

    def read(self) -> Regex:
        part = self._either()
        if self.at < len(self.pattern):
            raise RegexError("unbalanced )")
        final = self._state()
        return Regex(self.states, part(final), final)

    def _state(self, after: Iterable[int] = (), test: Test | None = None, edge: Edge | None = None) -> int:
        self._count()
        self.states.append(_State(test, edge, list(after)))
        return len(self.states) - 1

    def _count(self) -> None:
        self.made += 1
        if self.made > MOST_STATES:
            raise RegexError("too large")

    def _peek(self) -> str:
        while self.spaced and self.at < len(self.pattern) and self.pattern[self.at].isspace():
            self.at += 1
        return self.pattern[self.at] if self.at < len(self.pattern) else ""

    def _take(self) -> str:
        each = self.pattern[self.at] if self.at < len(self.pattern) else ""
        if not each:
            raise RegexError("unexpected end")
        self.at += 1
        return each

    def _either(self) -> _Part:
        ways = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            ways.append(self._sequence())
        if len(ways) == 1:
            return ways[0]
        return lambda after: self._state([way(after) for way in ways])

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())

        def made(after: int) -> int:
            for part in reversed(parts):
                after = part(after)
            return after

        return made

    def _repeated(self) -> _Part:
        part = self._one()
        while (each := self._peek()) and each in "*+?{":
            bounds = self._bounds()
            if bounds is None:
                break
            part = self._times(part, *bounds)
            if self._peek() == "?":
                # What is taken first does not change whether there is a match.
                self.at += 1
        return part

    def _bounds(self) -> tuple[int, int | None] | None:
        each = self._take()
        if each != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[each]
        end = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at : end].partition(",") if end > 0 else ("", "", "")
        if not low.isdecimal() or len(low) > 4 or (high and (not high.isdecimal() or len(high) > 4)):
            self.at -= 1
            return None
        self.at = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if most is not None and most < least:
            raise RegexError("bounds in the wrong order")
        return least, most

    def _times(self, part: _Part, least: int, most: int | None) -> _Part:
        def made(after: int) -> int:
            if most is None:
                loop = self._state()
                self.states[loop].after = [part(loop), after]
                after = loop
            else:
                final = after
                for _ in range(most - least):
                    after = self._state([part(after), final])
            for _ in range(least):
                # Something empty makes no states, however often it is repeated.
                self._count()
                after = part(after)
            return after

        return made

    def _one(self) -> _Part:
        each = self._take()
        if each == "(":
            return self._group()
        if each == "^":
            lines = self.lines
            return self._edge(lambda before, _: not before or (lines and before == "\n"))
        if each == "$":
            lines = self.lines
            return self._edge(lambda _, following: not following or (lines and following == "\n"))
        if each == ".":
            dot_all = self.dot_all
            return self._test(lambda one: dot_all or one != "\n")
        if each == "[":
            return self._test(self._set())
        if each == "\\":
            return self._escaped()
        if each in "*+?":
            raise RegexError("nothing to repeat")
        return self._literal(each)

    def _group(self) -> _Part:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise RegexError("nested too deeply")
        if self.pattern.startswith("?", self.at):
            if not self.pattern.startswith("?:", self.at):
                raise RegexError("a group that is not understood")
            self.at += 2
        part = self._either()
        if self._peek() != ")":
            raise RegexError("a group without end")
        self.at += 1
        self.depth -= 1
        return part

    def _escaped(self) -> _Part:
        each = self._take()
        if each in "bB":
            wanted = each == "b"
            return self._edge(
                lambda before, following: (
                    ((bool(before) and _word(before)) != (bool(following) and _word(following))) is wanted
                )
            )
        return self._test(found) if (found := self._class(each)) else self._literal(self._character(each))

    def _class(self, each: str) -> Test | None:
        test = _CLASSES.get(each.lower())
        if test is None or each in _CLASSES:
            return test
        inner = test
        return lambda one: not inner(one)

    def _character(self, each: str) -> str:
        """What stands after a backslash in a pattern, if it stands for one character."""
        digits = {"x": 2, "u": 4}.get(each)
        if digits is not None:
            code = self.pattern[self.at : self.at + digits]
            if len(code) < digits or not all(one in "0123456789abcdefABCDEF" for one in code):
                raise RegexError("a code that is none")
            self.at += digits
            return chr(int(code, 16))
        if each in _CONTROLS:
            return _CONTROLS[each]
        if each.isalnum():
            raise RegexError("an escape that is not understood")
        return each

    def _set(self) -> Test:
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        tests: list[Test] = []
        start = self.at
        while (each := self._take()) != "]" or self.at == start + 1:
            if each == "\\":
                each = self._take()
                found = self._class(each)
                if found is not None:
                    tests.append(found)
                    continue
                each = "\b" if each == "b" else self._character(each)
            tests.append(self._range(each))

        def test(one: str) -> bool:
            return any(each(one) for each in tests) is not negated

        return test

    def _range(self, low: str) -> Test:
        high = low
        if self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at):
            self.at += 1
            high = self._take()
            if high == "\\":
                high = self._character(self._take())
        if high < low:
            raise RegexError("a range in the wrong order")
        if not self.ignore_case:
            return lambda one: low <= one <= high
        return lambda one: low <= one <= high or low <= one.lower() <= high or low <= one.upper() <= high

    def _literal(self, each: str) -> _Part:
        if not self.ignore_case:
            return self._test(lambda one: one == each)
        folded = each.lower()
        return self._test(lambda one: one.lower() == folded)

    def _test(self, test: Test) -> _Part:
        return lambda after: self._state([after], test=test)

    def _edge(self, edge: Edge) -> _Part:
        return lambda after: self._state([after], edge=edge)


def regex_of(pattern: str, flags: str = "") -> Regex:
    """Reads a pattern.

    Raises:
        RegexError: it is none, it is too large, or it needs what is not understood here.
    """
    return _Reader(pattern, flags).read()
