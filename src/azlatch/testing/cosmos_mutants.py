"""The Cosmos DB backend with one rule undone at a time; see `azlatch.testing.mutants`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azlatch.backends import cosmos, cosmos_service
from azlatch.backends.cosmos import CosmosBackend
from azlatch.backends.cosmos_document import id_of
from azlatch.backends.cosmos_words import Refused
from azlatch.core import record
from azlatch.core.record import Record
from azlatch.testing.mutant import Mutant

if TYPE_CHECKING:
    from azlatch.testing.watched import Profile

ITEMS: tuple[Profile, ...] = ("item",)

_takeover = record.takeover
_broken = record.broken


def _contenders_ttl(found: Record, claim: Any, evidence: Any) -> Any:
    return _takeover(found._replace(ttl=claim.ttl), claim, evidence)


def _break_frees_at_once(found: Record, **how: Any) -> Record:
    return _broken(found, **{**how, "now": True})


def _beat_not_raised(self: CosmosBackend, grant: Any, sent: float, until: float) -> Any:
    return self._change(grant, [cosmos._raise("version")], until)


def _upsert_renewal(self: CosmosBackend, grant: Any, sent: float, until: float) -> Any:
    operations = [cosmos._set("nonce", grant.nonce), cosmos._set("state", "held"), cosmos._raise("beat")]
    self._patch(grant.name, operations, until, quiet=True)


def _deletes_on_release(self: CosmosBackend, name: str, nonce: str, until: float) -> bool:
    found = self._read(name, until).document
    if found is None or found["nonce"] != nonce:
        return False
    try:
        self._prepare(until).delete(id_of(name), found["_etag"], until)
    except Refused:
        return False
    return True


def _frees_any(self: CosmosBackend, name: str, nonce: str, until: float) -> bool:
    try:
        self._patch(name, [cosmos._set("state", "free"), cosmos._raise("version")], until)
    except Refused:
        return False
    return True


COSMOS_MUTANTS: dict[str, Mutant] = {
    "item-any-version": Mutant(
        "R1: an item is replaced on the version that was seen",
        ((cosmos_service, "_if", lambda etag: {}),),
        prepare=lambda store: setattr(store.cosmos, "ignores_etags", True),
        profiles=ITEMS,
    ),
    "item-beat-not-raised": Mutant(
        "R1: every renewal raises the beat",
        ((CosmosBackend, "renew", _beat_not_raised),),
        profiles=ITEMS,
    ),
    "item-upsert-renewal": Mutant(
        "R1: a renewal only changes its own",
        ((CosmosBackend, "renew", _upsert_renewal),),
        profiles=ITEMS,
    ),
    "item-contenders-ttl": Mutant(
        "R2, R3: the record's ttl counts, not the contender's",
        ((record, "takeover", _contenders_ttl),),
        stress="clocks",
        profiles=ITEMS,
    ),
    "item-no-slack": Mutant(
        "R3: two stamps are whole seconds, by clocks that differ a little",
        ((cosmos, "SLACK", -1.0),),
        stress="clocks",
        profiles=ITEMS,
    ),
    "item-absent-is-failure": Mutant(
        "R5: a nonce that is absent may still turn up",
        ((record, "settled", lambda found, basis: True),),
        stress="lost-writes",
        profiles=ITEMS,
    ),
    "item-delete-on-release": Mutant(
        "R6: a release deletes no record",
        ((CosmosBackend, "_free", _deletes_on_release),),
        stress="haste",
        profiles=ITEMS,
    ),
    "item-free-any": Mutant(
        "R6: a release frees the name under its own nonce alone",
        ((CosmosBackend, "_free", _frees_any),),
        profiles=ITEMS,
    ),
    "item-fence-without-date": Mutant(
        "F2: a fence is made of the service's time",
        ((cosmos, "least_fence", lambda service_time: 1),),
        profiles=ITEMS,
    ),
    "item-break-frees-at-once": Mutant(
        "B2: a broken name is granted only when its holder has noticed",
        ((record, "broken", _break_frees_at_once),),
        stress="operators",
        profiles=ITEMS,
    ),
}
