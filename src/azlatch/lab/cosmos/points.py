"""Point operations and batches on items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from azlatch.lab.cosmos import charges, errors, sql
from azlatch.lab.cosmos.call import LONGEST_OPERATION, Call
from azlatch.lab.cosmos.errors import ServiceError, bad_request, too_large
from azlatch.lab.cosmos.partition_key import MISMATCH
from azlatch.lab.cosmos.replication import Entry
from azlatch.lab.cosmos.resource_id import number_of, parent_of
from azlatch.lab.cosmos.transaction import Act, Key, Operation, Outcome, Transaction
from azlatch.lab.cosmos.versions import View
from azlatch.lab.cosmos.wire import Reply, decode, encode

#: Limits of a batch: operations, and bytes of the request.
MOST_OPERATIONS = 100
LARGEST_REQUEST = 2 * 2**20
#: ... and bytes of the items in its reply. Assumed: as much as a page of a query.
LARGEST_RESPONSE = 4 * 2**20

_BATCHED: dict[str, Act] = {
    "Create": "create",
    "Upsert": "upsert",
    "Read": "read",
    "Replace": "replace",
    "Patch": "patch",
    "Delete": "delete",
}


def point(call: Call) -> Reply:
    """One operation on one item."""
    act = _act(call)
    operation = _operation(call, act)
    key = call.whole_key()
    if call.route.parent("colls") == call.store.resource.rid:
        operation = replace(operation, name=_name_of(call, key, operation.name))
    view = call.view() if act == "read" else call.view_of_writer()
    transaction = _transaction(call, view)
    try:
        outcome = transaction.run(operation)
        entry = transaction.commit()
    except ServiceError as error:
        call.pay(charges.failed(error.status))
        raise
    call.pay(outcome.charge)
    return _committed(call, entry, outcome.status, outcome.body, outcome.etag, view)


def _act(call: Call) -> Act:
    acts: dict[str, Act] = {
        "create": "create",
        "upsert": "upsert",
        "read": "read",
        "replace": "replace",
        "patch": "patch",
        "delete": "delete",
    }
    return acts[call.route.verb]


def _operation(call: Call, act: Act) -> Operation:
    request = call.request
    if len(request.body) > LARGEST_REQUEST + 65_536:
        raise too_large()
    document = _json(request.body) if act in ("create", "upsert", "replace") else None
    return Operation(
        act,
        call.route.name,
        document,
        request.body,
        # The service does not look at conditions of a create.
        request.header("if-match") if act != "create" else "",
        request.header("if-none-match") if act != "create" else "",
        len(request.body),
    )


def _name_of(call: Call, key: Key, rid: str) -> str:
    """The id of an item that a path of resource ids names by its own; without such an item what it says."""
    if call.part is None or parent_of(rid) != call.store.resource.rid:
        return rid
    history = call.part.numbered(number_of(rid))
    return history.id if history is not None and history.key.text == key.text else rid


def _json(body: bytes) -> Any:
    try:
        return decode(body)
    except ValueError:
        raise bad_request(
            "The request payload is invalid. Ensure to provide a valid request payload."
        ) from None


def _transaction(call: Call, view: View) -> Transaction:
    if call.part is None or call.key is None:
        raise bad_request("The request names no partition key.")
    return Transaction(
        call.store,
        call.part,
        call.key,
        view,
        source=call.service.topology.source(call.region),
        now=call.now,
        etag=call.service.etag,
        holds=_holds,
        level=call.level,
        largest_key=call.service.largest_key,
    )


def _holds(condition: str, document: dict[str, Any]) -> bool:
    """Whether a document fulfils the condition of a patch: ``from c where ...``."""
    query = sql.parse(f"SELECT VALUE 1 {condition}")
    return any(True for _ in sql.execute(query, {}, [document]))


def _committed(call: Call, entry: Entry | None, status: int, body: bytes, etag: str, view: View) -> Reply:
    """The answer to what was written: with Strong not before all regions have it."""
    if entry is None or call.part is None:
        return call.reply(status, body, etag, view)
    topology = call.service.topology
    seen = call.part.view(call.region, late=False, now=call.now) if topology.multiple else None
    reply = call.reply(status, body, etag, seen)
    if topology.level == "Strong":
        ready = call.part.commits_at(entry)
        if ready - call.now > LONGEST_OPERATION:
            error = ServiceError(408, "The write is not in all regions yet; whether it will be is not known.")
            raise Late(error, call.now + LONGEST_OPERATION)
        call.part.replication.promise(entry, ready)
        reply.ready_at = ready if ready > call.now else None
    return reply


class Late(Exception):
    """An error that is told only at a time, on the clock of the lab."""

    def __init__(self, error: ServiceError, ready_at: float) -> None:
        super().__init__(str(error))
        self.error = error
        self.ready_at = ready_at


# -- batches ---------------------------------------------------------------------------------------------


def batch(call: Call) -> Reply:
    """Several operations on one logical partition, all of them or none."""
    if len(call.request.body) > LARGEST_REQUEST:
        raise too_large("Request size is too large")
    given = _json(call.request.body)
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise bad_request("The batch request is not a list of operations.")
    if not given:
        raise bad_request("Batch request has no operations.")
    if len(given) > MOST_OPERATIONS:
        raise bad_request("Batch request has more operations than what is supported.")
    if not call.request.flag("x-ms-cosmos-batch-atomic"):
        raise bad_request("Batches that are not atomic are not offered.")
    operations = [_batched(each) for each in given]
    try:
        call.whole_key()
    except ServiceError as error:
        # Of a batch the service says it in other words.
        raise errors.wrong_key() if error.substatus == MISMATCH else error from None
    writes = any(each.act != "read" for each in operations)
    view = call.view_of_writer() if writes else call.view()
    transaction = _transaction(call, view)
    outcomes: list[Outcome] = []
    size = 0
    failed: ServiceError | None = None
    for operation in operations:
        try:
            outcome = transaction.run(operation)
            size += len(outcome.body)
            if size > LARGEST_RESPONSE:
                raise too_large("Batch response size is too large", 3402)
            outcomes.append(outcome)
        except ServiceError as error:
            failed = error
            break
    entry = None
    if failed is None:
        try:
            entry = transaction.commit()
        except ServiceError as error:
            # It is the whole that does not fit.
            call.pay(charges.failed(error.status))
            raise
    if failed is not None:
        results = _failure(len(operations), len(outcomes), failed)
        call.pay(sum(each.charge for each in outcomes) + charges.failed(failed.status))
        return call.reply(207, encode(results), view=view)
    call.pay(sum(each.charge for each in outcomes))
    return _committed(call, entry, 200, encode([_result(each) for each in outcomes]), "", view)


def _batched(given: dict[str, Any]) -> Operation:
    act = _BATCHED.get(str(given.get("operationType")))
    if act is None:
        raise bad_request("An operation of the batch has no valid operationType.")
    body = given.get("resourceBody")
    name = given.get("id", "")
    if not isinstance(name, str):
        raise bad_request("The id of an operation of the batch is not a string.")
    conditions = {key: given.get(key) or "" for key in ("ifMatch", "ifNoneMatch")}
    if not all(isinstance(each, str) for each in conditions.values()):
        raise bad_request("A condition of an operation of the batch is not a string.")
    encoded = encode(body)
    return Operation(
        act,
        name,
        body,
        encoded if act == "patch" else b"",
        conditions["ifMatch"],
        conditions["ifNoneMatch"],
        len(encoded),
    )


def _result(outcome: Outcome) -> dict[str, Any]:
    result: dict[str, Any] = {"statusCode": outcome.status, "requestCharge": outcome.charge}
    if outcome.etag:
        result["eTag"] = outcome.etag
    if outcome.body:
        result["resourceBody"] = decode(outcome.body)
    return result


def _failure(count: int, at: int, error: ServiceError) -> list[dict[str, Any]]:
    """What is said of each operation of a batch, of which the one at `at` failed."""
    others = errors.failed_dependency()
    results: list[dict[str, Any]] = [{"statusCode": others.status, "requestCharge": 0.0} for _ in range(count)]
    results[at] = {"statusCode": error.status, "requestCharge": charges.failed(error.status)}
    if error.substatus:
        results[at]["subStatusCode"] = error.substatus
    return results


def delete_key(call: Call) -> Reply:
    """Deletes all items of one logical partition."""
    key = call.whole_key()
    view = call.view_of_writer()
    transaction = _transaction(call, view)
    logical = call.part.keys.get(key.text) if call.part is not None else None
    charge = charges.failed(404)
    for name in list(logical.items if logical is not None else ()):
        try:
            charge += transaction.run(Operation("delete", name)).charge
        except ServiceError:
            # Expired, or deleted as this region sees it.
            continue
    entry = transaction.commit()
    call.pay(charge)
    return _committed(call, entry, 200, b"", "", view)
