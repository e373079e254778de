"""Throughput of databases and containers: offers, manual and autoscale, and what they may be changed to."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from azlatch.lab.cosmos.errors import bad_request
from azlatch.lab.cosmos.field import as_int, as_object
from azlatch.lab.cosmos.resource_tree import ContainerResource, DatabaseResource, Resource
from azlatch.lab.cosmos.wire import Request

MOST = 1_000_000
LEAST_MANUAL = 400
LEAST_AUTOSCALE = 1_000
_STEP_MANUAL = 100
_STEP_AUTOSCALE = 1_000
_MANUAL_HEADER = "x-ms-offer-throughput"
_AUTOSCALE_HEADER = "x-ms-cosmos-offer-autopilot-settings"
_TO_AUTOSCALE = "x-ms-cosmos-migrate-offer-to-autopilot"
_TO_MANUAL = "x-ms-cosmos-migrate-offer-to-manual-throughput"

#: RU/s (of autoscale the maximum), whether autoscale, and what the caller gave as its autoUpgradePolicy.
Throughput = tuple[int, bool, dict[str, Any] | None]

#: Containers that share a database's least throughput; each beyond them needs 100 RU/s more.
_SHARING_LEAST = 25


class Offer(Resource):
    """The throughput of one database or container."""

    __slots__ = ("autoscale", "highest", "owner", "throughput", "upgrade")

    def __init__(self, number: int, owner: DatabaseResource | ContainerResource) -> None:
        super().__init__("offers", number, None, "")
        self.name = self.rid
        self.owner = owner
        #: RU/s; of autoscale the maximum.
        self.throughput = 0
        self.autoscale = False
        #: What the caller gave as autoUpgradePolicy, None if nothing.
        self.upgrade: dict[str, Any] | None = None
        #: The most that it ever was, RU/s: it bounds how low it can go.
        self.highest = 0

    def set(self, wanted: Throughput, lsn: int, now: float) -> None:
        """Changes it to what was checked before."""
        throughput, autoscale, upgrade = wanted
        self.throughput, self.autoscale, self.upgrade = throughput, autoscale, upgrade
        self.highest = max(self.highest, throughput)
        content: dict[str, Any] = {
            "offerThroughput": throughput // 10 if autoscale else throughput,
            "offerIsRUPerMinuteThroughputEnabled": False,
            "offerLastReplaceTimestamp": int(now),
        }
        if autoscale:
            # A tenth of the maximum is what an idle autoscale offer is billed for.
            settings: dict[str, Any] = {"maxThroughput": throughput}
            if upgrade is not None:
                settings["autoUpgradePolicy"] = upgrade
            content["offerAutopilotSettings"] = settings
        link = {"resource": self.owner.self_link, "offerType": "Invalid", "offerResourceId": self.owner.rid}
        self.write({**link, "offerVersion": "V2", "content": content}, lsn, now)

    def restore(self, state: dict[str, Any]) -> None:
        """Becomes what it was."""
        self.throughput, self.autoscale = state["throughput"], state["autoscale"]
        self.upgrade, self.highest = state["upgrade"], state["highest"]
        self.take(state["body"])

    def least(self, kilobytes: int) -> int:
        """The least that it can be changed to, RU/s, with that much data; the formulas of concepts-limits."""
        gigabytes = kilobytes / (1024 * 1024)
        if self.autoscale:
            return _rounded(max(LEAST_AUTOSCALE, self.highest / 10, gigabytes * 10), _STEP_AUTOSCALE)
        least = max(LEAST_MANUAL, self.highest / 100, gigabytes)
        if isinstance(self.owner, DatabaseResource):
            sharing = sum(each.shares_database for each in self.owner.containers)
            least = max(least, LEAST_MANUAL + _STEP_MANUAL * (sharing - _SHARING_LEAST))
        return _rounded(least, _STEP_MANUAL)


def throughput_of_headers(request: Request) -> Throughput | None:
    """What the headers of a create ask for: RU/s, whether autoscale, its upgrade policy; None if nothing.

    Raises:
        ServiceError: 400 for both at once, or a value out of range.
    """
    manual, autoscale = request.header(_MANUAL_HEADER), request.header(_AUTOSCALE_HEADER)
    if manual and autoscale:
        raise bad_request("Manual throughput and autoscale settings cannot be set at the same time.")
    if autoscale:
        try:
            settings = as_object(msgspec.json.decode(autoscale))
        except (msgspec.DecodeError, RecursionError):
            raise bad_request(f"The header {_AUTOSCALE_HEADER} is not JSON.") from None
        return _settings(settings, LEAST_AUTOSCALE)
    if manual:
        try:
            throughput = int(manual) if len(manual) <= 10 else MOST + 1
        except ValueError:
            raise bad_request(f"The header {_MANUAL_HEADER} is not a whole number.") from None
        return _manual(throughput, LEAST_MANUAL), False, None
    return None


def replacement_of(offer: Offer, body: dict[str, Any], request: Request, least: int) -> Throughput:
    """What the body and headers of a replace change an offer to.

    Raises:
        ServiceError: 400 for a change that is none, or a value out of range.
    """
    if request.flag(_TO_AUTOSCALE):
        if offer.autoscale:
            raise bad_request("The offer is autoscale already.")
        return min(MOST, _rounded(max(LEAST_AUTOSCALE, offer.throughput), _STEP_AUTOSCALE)), True, None
    if request.flag(_TO_MANUAL):
        if not offer.autoscale:
            raise bad_request("The offer is manual already.")
        return offer.throughput, False, None
    content = as_object(body.get("content"))
    settings = content.get("offerAutopilotSettings")
    if not offer.autoscale:
        if settings is not None:
            raise bad_request(f"The offer is manual; it becomes autoscale by the header {_TO_AUTOSCALE}.")
        return _manual(as_int(content.get("offerThroughput")), least), False, None
    new = _settings(as_object(settings), least)
    stated = content.get("offerThroughput")
    # The SDK sends back what it read with the maximum changed, so that a differing manual value is meant only
    # where the maximum is not changed.
    if new[0] == offer.throughput and stated not in (None, offer.throughput // 10):
        raise bad_request(f"The offer is autoscale; it becomes manual by the header {_TO_MANUAL}.")
    return new


def _settings(settings: dict[str, Any], least: int) -> Throughput:
    throughput = as_int(settings.get("maxThroughput"))
    _check_range(throughput, least, _STEP_AUTOSCALE)
    upgrade = settings.get("autoUpgradePolicy")
    if upgrade is not None:
        policy = as_object(as_object(upgrade).get("throughputPolicy") or {})
        if as_int(policy.get("incrementPercent", 0)) < 0:
            raise bad_request("The increment percent of autoscale cannot be negative.")
        upgrade = {"throughputPolicy": {"incrementPercent": policy.get("incrementPercent", 0)}}
    return throughput, True, upgrade


def _manual(throughput: int, least: int) -> int:
    _check_range(throughput, least, _STEP_MANUAL)
    return throughput


def _check_range(throughput: int, least: int, step: int) -> None:
    if throughput < least:
        raise bad_request(
            f"Requested throughput {throughput} is less than required minimum throughput {least}."
            f" Values are between {least} and {MOST} inclusive, in increments of {step}."
        )
    if throughput > MOST or throughput % step:
        raise bad_request(
            f"The offer should have valid throughput values between {least} and {MOST} inclusive"
            f" in increments of {step}."
        )


def _rounded(value: float, step: int) -> int:
    return math.ceil(value / step) * step


def share(container: ContainerResource, offer: Offer, *, own: bool) -> None:
    """Gives a container its throughput: that of its own offer, or of its database's."""
    container.throughput = offer.throughput
    container.autoscale = offer.autoscale
    container.shares_database = not own
