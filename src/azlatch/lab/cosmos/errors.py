"""What the service answers instead of doing it: one error, made in one place, told by status and substatus.

Sources of the pairs: `docs/ErrorCodesAndRetries.md` of azure_data_cosmos_driver (Rust) and `StatusCodes.md` of
azure-cosmos (Java). None was compared with a live account.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The `code` in the body of an answer, by status.
_CODES = {
    304: "NotModified",
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    412: "PreconditionFailed",
    413: "RequestEntityTooLarge",
    423: "Locked",
    424: "FailedDependency",
    429: "TooManyRequests",
    449: "RetryWith",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


class ServiceError(Exception):
    """A request that was not carried out.

    Args:
        status: of HTTP.
        message: one sentence, without what the caller sent beyond names and sizes.
        substatus: what tells this from others of the same status; 0 is sent, too.
        headers: further headers of the answer.
    """

    def __init__(
        self, status: int, message: str, substatus: int = 0, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{status}/{substatus}: {message}")
        self.status = status
        self.substatus = substatus
        self.message = message
        self.headers = dict(headers or {})

    @property
    def code(self) -> str:
        """The word for it in the body."""
        return _CODES.get(self.status, "Error")


def bad_request(message: str, substatus: int = 0) -> ServiceError:
    """400: the request can never succeed as it is."""
    return ServiceError(400, message, substatus)


def not_found(message: str = "Entity with the specified id does not exist in the system.") -> ServiceError:
    """404/0: there is no such thing (in that logical partition)."""
    return ServiceError(404, message)


def owner_not_found() -> ServiceError:
    """404/1003: the database or container of it does not exist."""
    return ServiceError(404, "Owner resource does not exist", 1003)


def behind_session() -> ServiceError:
    """404/1002: no replica here has what the session token says was seen."""
    return ServiceError(404, "The read session is not available for the input session token.", 1002)


def exists(message: str = "Entity with the specified id already exists in the system.") -> ServiceError:
    """409/0: the id is taken in that logical partition."""
    return ServiceError(409, message)


def unique_key() -> ServiceError:
    """409/3301: another item of the logical partition has the same values at the paths of a unique key."""
    return ServiceError(409, "Unique index constraint violation.", 3301)


def precondition(message: str = "One of the specified pre-condition is not met") -> ServiceError:
    """412/0: the condition of the request does not hold."""
    return ServiceError(412, message)


def wrong_key() -> ServiceError:
    """400/1001: the partition key of a request is not one that the container or the document has."""
    return bad_request(
        "Partition key provided either doesn't correspond to definition in the collection or doesn't match "
        "partition key field values specified in the document.",
        1001,
    )


def crosses_partitions() -> ServiceError:
    """400: a query over several partitions of a client that did not say that it wants one."""
    return bad_request(
        "Cross partition query is required but disabled. Please set "
        "x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or "
        "revise your query to avoid this exception."
    )


def too_large(message: str = "Request size is too large", substatus: int = 0) -> ServiceError:
    """413: an item, a request or a batch beyond its limit."""
    return ServiceError(413, message, substatus)


def range_gone(substatus: int = 1002) -> ServiceError:
    """410: the physical partition was split, merged or moved."""
    return ServiceError(410, "The requested resource is no longer available at the server.", substatus)


def failed_dependency() -> ServiceError:
    """424: not carried out because another operation of the batch failed."""
    return ServiceError(424, "Transaction failed because of another operation in the batch.")


def throttled(retry_after_ms: int, substatus: int = 3200) -> ServiceError:
    """429: no request units left: of the physical partition (3200) or of the logical one (3214)."""
    return ServiceError(
        429,
        "Request rate is large. More Request Units may be needed, so no changes were made.",
        substatus,
        {"x-ms-retry-after-ms": str(retry_after_ms)},
    )
