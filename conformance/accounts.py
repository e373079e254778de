"""What each file of the SDK's suite needs: the account, how long it may take, or why it cannot run.

The settings were read in the files themselves. What a file fakes in the client (topologies, faults, delays) is
nothing that the account has to have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The endpoint that the suite takes for an emulator; some files name it themselves.
EMULATOR = "https://localhost:8081/"


@dataclass(frozen=True)
class Account:
    """The account that a file runs against.

    Attributes:
        regions: their names, the write region first.
        multi_write: whether every region may be written.
        consistency: its default level.
        fixed: whether it is served at EMULATOR, with TLS, which the file names itself.
        latency: how long every answer about items takes at least, seconds: some files wait for less than what
            even the nearest network takes, and expect that to be too little.
        host: the account's name, where its regions are told apart by theirs.
        aad: whether it takes Entra ID tokens.
        environment: further variables for the process that runs the file.
        bound: how long the file may take, seconds.
    """

    #: As the emulator has; "West US" is what the suite takes for the second region where there is none.
    regions: tuple[str, ...] = ("South Central US",)
    multi_write: bool = False
    consistency: str = "Session"
    fixed: bool = False
    latency: float = 0.0
    host: str = ""
    aad: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    bound: float = 600.0

    @property
    def shape(self) -> str:
        """In a few words, for the report."""
        parts = [self.consistency]
        if len(self.regions) > 1:
            parts.append(f"{len(self.regions)} regions{', all written' if self.multi_write else ''}")
        if self.fixed:
            parts.append("TLS on 8081")
        if self.latency:
            parts.append(f"{self.latency * 1e3:g} ms")
        parts += [f"{name}={value}" for name, value in self.environment.items()]
        return ", ".join(parts)


_LOCAL = "localhost"
_DOCUMENTS = "localhost.documents.test"
_TWO = ("West US", "East US")
_THREE = (*_TWO, "Central US")
_BREAKER = {"AZURE_COSMOS_ENABLE_CIRCUIT_BREAKER": "True"}
#: Hundreds of tests that wait for seconds each, seconds.
_SLOW = 2400.0
_PLAIN = Account()
_LONG = Account(bound=1200.0)
_FAR = Account(bound=1200.0, latency=0.02)
_FIXED = Account(fixed=True)

#: By the name without `test_` and `.py`; the asyncio twin of a file has the same, unless it is named itself.
_ACCOUNTS: dict[str, Account] = {
    # The other region's URL is written down in the fault transport that these use.
    "circuit_breaker_emulator": _FIXED,
    "cosmos_http_logging_policy": _FIXED,
    "excluded_locations_emulator": _FIXED,
    "fault_injection_transport": _FIXED,
    "retryable_writes": _FIXED,
    "session": _FIXED,
    # What they ask of an emulator, they ask only of that endpoint.
    "aad": Account(fixed=True, aad=True),
    "aad_inference_service_lazy_init": Account(fixed=True, aad=True),
    "change_feed_all_versions": _FIXED,
    "user_agent_overwrite_regression": Account(fixed=True, aad=True),
    # They compare the requested URLs with those of two regions of one account.
    "availability_strategy": Account(_TWO, host=_LOCAL, multi_write=True, bound=_SLOW),
    "effective_preferred_locations": Account(_TWO, host=_LOCAL, multi_write=True),
    "excluded_locations": Account(_TWO, host=_LOCAL, multi_write=True),
    "per_partition_circuit_breaker_mm": Account(
        _TWO, host=_LOCAL, multi_write=True, environment=_BREAKER, bound=_SLOW
    ),
    "per_partition_circuit_breaker_sm_mrr": Account(_TWO, host=_LOCAL, environment=_BREAKER, bound=_SLOW),
    # Its faults are for URLs with "documents" in them.
    "per_partition_automatic_failover": Account(_THREE, host=_DOCUMENTS, bound=_SLOW),
    # ... and its twin counts the regions that are left, of two.
    "per_partition_automatic_failover_async": Account(_TWO, host=_DOCUMENTS, bound=_SLOW),
    "service_request_retry_policy": Account(_TWO, host=_LOCAL, multi_write=True),
    # Thousands of requests, or waits of the tests themselves.
    "crud": _FAR,
    "crud_response_payload_on_write_disabled": _FAR,
    "partition_split_query": _LONG,
    "query_cross_partition": _LONG,
    "query_feed_range": _LONG,
    "query_feed_range_multipartition": _LONG,
    "read_items": _LONG,
}

_SEARCH = "needs vector or full-text search"
#: Files that nothing here can serve, each with what is missing.
NOT_SERVED: dict[str, str] = {
    "query_hybrid_search": _SEARCH,
    "query_vector_similarity": _SEARCH,
    "global_secondary_index_live": "needs global secondary indexes",
    "semantic_reranker": "needs the inference service",
    "analytical_ttl": "every test in it is commented out",
    "integrated_cache": "every test in it is commented out",
}

#: Files that fake the service in the client, or use none: they say nothing about a server, and pass on any.
CLIENT_ONLY = frozenset(
    {
        "aio_extras_packaging_unit",
        "base_unit",
        "compact_utf8_resilience",
        "container_rid_header_unit",
        "content_length_encoding",
        "cosmos_paged_unit",
        "diagnostics",
        "feed_range_continuation_token",
        "global_secondary_index",
        "globaldb_mock",
        "hybrid_search_aggregator",
        "item_body_serialization",
        "location_cache",
        "multi_execution_aggregator_unit",
        "murmurhash3",
        "partition_key_undefined_unit",
        "partition_split_retry_unit",
        "pk_range_drain",
        "proxy",
        "query_advisor",
        "query_aggregate_utils_unit",
        "request_response_decoding",
        "response_decoding",
        "response_decoding_paged",
        "routing_map_provider_unit",
        "semantic_reranker_unit",
        "session_token_unit",
        "transport_body_encoding",
    }
)


def subject(file: str) -> str:
    """The name of a file without what all names have: `test_crud_async.py` is about `crud`."""
    return names_of(file)[1]


def names_of(file: str) -> tuple[str, str]:
    """What the table may call a file: itself, and together with its twin."""
    own = file.removeprefix("test_").removesuffix(".py")
    return own, own.removesuffix("_async")


def account_of(file: str) -> Account:
    """The account that a file needs."""
    return next((_ACCOUNTS[each] for each in names_of(file) if each in _ACCOUNTS), _PLAIN)


def named(file: str) -> bool:
    """Whether the table names the file; a name that the suite no longer has is a mistake in the table."""
    return not subjects().isdisjoint(names_of(file))


def subjects() -> frozenset[str]:
    """All names of the table."""
    return frozenset({*_ACCOUNTS, *NOT_SERVED, *CLIENT_ONLY})
