"""What `doctor` looks at in a storage account."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from azlatch.backends.blob_service import Refused, Settings
from azlatch.backends.protocol import Check
from azlatch.core.env import Env
from azlatch.core.lease import KEY
from azlatch.errors import BackendDenied, BackendError, BackendMisconfigured, OutcomeUnknown

if TYPE_CHECKING:
    from azlatch.backends.blob_service import BlobService

_LIMIT = 10.0
_CLOCK = 2.0
#: The blob that the checks lease; no latch has this id.
_PROBE = "azlatch-doctor~probe"


def examine(service: BlobService, env: Env) -> list[Check]:
    """Everything, in the order in which a person would look; what cannot be asked is a warning, not a guess."""
    until = env.now() + _LIMIT
    checks: list[Check] = []
    try:
        settings = service.settings(until)
    except BackendMisconfigured as error:
        cure = "make it: azlatch doctor --apply, or az storage container create"
        return [Check("container", "wrong", str(error), cure)]
    except (BackendError, OutcomeUnknown) as error:
        return [
            Check("reachable", "wrong", str(error), "see the network, the account's name and the credential")
        ]
    checks.append(Check("container", "ok", f"{settings.container} answers"))
    checks.append(_api(settings))
    checks.append(_rights(service, env))
    checks.append(_clock(settings, env))
    checks.extend(_unsafe(settings))
    return checks


def _api(settings: Settings) -> Check:
    return Check("service", "ok", f"{settings.service}, API version {settings.api_version}")


def _rights(service: BlobService, env: Env) -> Check:
    """By doing what a latch does: make a blob, lease it, describe it, list it, break it, delete it."""
    until = env.now() + _LIMIT
    lease = str(uuid.uuid4())
    step = "create a blob"
    try:
        try:
            etag = service.create(_PROBE, {KEY: "probe"}, until, replace=False).etag
        except Refused:
            found = service.head(_PROBE, until)
            etag = found.etag if found is not None else ""
        step = "lease it"
        service.acquire(_PROBE, lease, 15, etag, until)
        step = "write its metadata"
        etag = service.describe(_PROBE, {KEY: "probe"}, lease, etag, until).etag
        step = "release it"
        service.release(_PROBE, lease, until)
        step = "list the container"
        next(service.list(_PROBE, until), None)
        step = "delete it"
        service.delete(_PROBE, etag, until)
    except Refused as refused:
        return Check(
            "rights", "warn", f"could not {step}: {refused.code}", "another doctor is at work: run it again"
        )
    except (BackendError, OutcomeUnknown) as error:
        return _missing(step, error)
    return Check("rights", "ok", "create, lease, describe, list and delete")


def _missing(step: str, error: Exception) -> Check:
    cure = (
        "give the identity the role Storage Blob Data Contributor on the container"
        if isinstance(error, BackendDenied)
        else "see what the service says"
    )
    return Check("rights", "wrong", f"could not {step}: {error}", cure)


def _clock(settings: Settings, env: Env) -> Check:
    if settings.now is None:
        return Check(
            "clock",
            "wrong",
            "answers have no Date",
            "let the proxy between pass that header on: fences need it",
        )
    apart = abs(env.wall() - settings.now)
    if apart > _CLOCK + 1:
        cure = "set the clock: latches do not need it, but signatures and what people read do"
        return Check("clock", "warn", f"{apart:.0f} s apart from the service's", cure)
    return Check("clock", "ok", "within two seconds of the service's")


def _unsafe(settings: Settings) -> list[Check]:
    """Settings of the account and the container that bear on latches."""
    checks = []
    if settings.soft_delete_days is None:
        checks.append(
            Check(
                "soft delete",
                "warn",
                "cannot be read with this credential",
                "see Data protection in the portal",
            )
        )
    elif settings.soft_delete_days:
        found = f"deleted blobs are kept for {settings.soft_delete_days} days"
        checks.append(
            Check("soft delete", "ok", f"{found}; azlatch deletes only in a purge, which then costs storage")
        )
    else:
        checks.append(Check("soft delete", "ok", "off"))
    if settings.immutable:
        checks.append(
            Check(
                "immutability",
                "wrong",
                "the container has an immutability policy or a legal hold: metadata cannot be written twice",
                "use a container of its own for latches",
            )
        )
    else:
        checks.append(Check("immutability", "ok", "no policy"))
    if settings.hierarchical:
        checks.append(
            Check("hierarchical namespace", "ok", "on; latches use flat names, and leases work the same")
        )
    elif settings.hierarchical is None:
        checks.append(
            Check(
                "hierarchical namespace",
                "warn",
                "cannot be read with this credential",
                "latches work either way",
            )
        )
    else:
        checks.append(Check("hierarchical namespace", "ok", "off"))
    checks.append(
        Check(
            "lifecycle rules",
            "warn",
            "only the management plane can tell whether a rule deletes or tiers blobs of this container",
            "exclude the container from rules: az storage account management-policy show",
        )
    )
    if settings.public:
        checks.append(
            Check(
                "public access",
                "warn",
                "anyone can read who holds what",
                "set the container's access to private",
            )
        )
    return checks
