"""What is wrong with a query, in the words and the shape that the service has for it.

The shape is from the messages quoted in issues of azure-cosmos-dotnet-v3 (pull request 3137) and CosmosDBStudio
(issue 21); codes and texts marked with "?" are ours.
"""

from __future__ import annotations

from azlatch.lab.cosmos.errors import ServiceError, bad_request
from azlatch.lab.cosmos.wire import encode

#: Longest part of a query that a message repeats, characters.
_MOST_QUOTED = 100


def _located(code: str, message: str, start: int, end: int) -> ServiceError:
    error = {"severity": "Error", "location": {"start": start, "end": end}, "code": code, "message": message}
    return bad_request(encode({"errors": [error]}).decode())


def syntax(near: str, start: int) -> ServiceError:
    """The text is no query from there on."""
    shown = near[:_MOST_QUOTED]
    message = f"Syntax error, incorrect syntax near '{shown}'."
    return _located("SC1001", message, start, start + len(near))


def ended(at: int) -> ServiceError:
    """The text ends in the middle of a query."""
    return _located("SC1002", "Syntax error, unexpected end-of-file.", at, at)


def unresolved(name: str, start: int) -> ServiceError:
    """A name that neither FROM nor JOIN made."""
    message = f"Identifier '{name[:_MOST_QUOTED]}' could not be resolved."
    return _located("SC2001", message, start, start + len(name))


def no_parameter(name: str, start: int) -> ServiceError:
    """A parameter that did not come with the request (?)."""
    message = f"Parameter '{name[:_MOST_QUOTED]}' could not be resolved."
    return _located("SC2001", message, start, start + len(name))


def unknown_function(name: str, start: int) -> ServiceError:
    """No such function."""
    message = f"'{name[:_MOST_QUOTED]}' is not a recognized built-in function name."
    return _located("SC2005", message, start, start + len(name))


def arguments(name: str, least: int, most: int | None, start: int) -> ServiceError:
    """A function with too few arguments, or too many (?)."""
    exact = str(least) if least == most else f"{least} to {most}"
    wanted = f"at least {least}" if most is None else exact
    return _located("SC2050", f"The {name} function requires {wanted} argument(s).", start, start + len(name))


def refused(message: str) -> ServiceError:
    """A query that can be read, and that the service does not run."""
    return bad_request(encode({"Errors": [message]}).decode())
