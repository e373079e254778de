"""What one query may use, and what it has used.

The service ends a query that takes too long with an empty page; the lab says so instead: 400, with the limit in
the message. The text for memory is the service's own (MicrosoftDocs/azure-docs issue 16997).
"""

from __future__ import annotations

from dataclasses import dataclass

from azlatch.lab.cosmos.errors import ServiceError, bad_request


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one query."""

    #: Parts of expressions evaluated, and what functions do per 16 characters or per element.
    steps: int = 20_000_000
    #: What ORDER BY, GROUP BY, DISTINCT and subqueries may keep, units of about 64 bytes.
    held: int = 2_000_000
    #: Longest string that a function makes, characters.
    text: int = 2_000_000


class Meter:
    """Counts what a query uses, and ends it at its limits."""

    __slots__ = ("held", "limits", "produced", "read", "steps")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps = 0
        self.held = 0
        #: Items read, and values given to the caller.
        self.read = 0
        self.produced = 0

    def spend(self, steps: int) -> None:
        """Raises ServiceError (400) when the query has done more than it may."""
        self.steps += steps
        if self.steps > self.limits.steps:
            raise bad_request(f"Query exceeded the maximum of {self.limits.steps} evaluation steps of the lab.")

    def hold(self, units: int) -> None:
        """Raises ServiceError (400) when the query keeps more than it may."""
        self.held += units
        if self.held > self.limits.held:
            raise bad_request(
                "Query exceeded the maximum allowed memory usage of 40 MB. "
                "Please consider adding more filters to reduce the query response size."
            )

    def check_text(self, length: int) -> None:
        """Before a string of that length is made; raises ServiceError (400)."""
        if length > self.limits.text:
            raise bad_request(
                f"A string in the query exceeded the maximum length of {self.limits.text} characters."
            )
        self.spend(length >> 4)


def too_deep() -> ServiceError:
    """A value nested more deeply than the lab follows."""
    return bad_request("A value is nested too deeply to be compared.")
