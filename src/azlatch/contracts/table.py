"""The answers of Cosmos DB: one table, keyed by status and substatus.

The pair is the identity: the same substatus means different things under different statuses. See `row.Key` for
the keys that have no pair. None of it was compared with a live account.
"""

from __future__ import annotations

from azlatch.contracts.row import Key, Row, same, table

#: Names of answers that no request for an item brings, by what they share.
_QUEUES: dict[Key, str] = {
    (429, 3073): "BwTreeIORateLimiter",
    (429, 3075): "ReplicationQueueFull",
    (429, 3076): "BwTreeLogFullBackpressure",
    (429, 3077): "ConnectionRateLimiter",
    (429, 3078): "XPCompositeReplicator",
    (429, 3079): "Unexpected",
    (429, 3080): "AsyncReaderWriterLock",
    (429, 3081): "ServiceModule",
    (429, 3082): "ValueDoesNotMatchExpectedBound",
    (429, 3083): "SinkPartitionValueDoesNotMatchExpectedBound",
    (429, 3085): "RntbdClientChannel",
    (429, 3086): "LogFlushQueueDepthBackpressure",
    (429, 3087): "CheckpointQueueDepthBackpressure",
    (429, 3088): "ThrottleDueToSplit",
    (429, 3089): "AEQueueFull",
    (429, 3090): "QuotaExceeded",
    (429, 3091): "CollectionQuotaExceeded",
    (429, 3093): "PartitionedResourceQuotaExceeded",
    (429, 3094): "ThrottleDueToResourceExhaustion",
    (429, 3095): "ThrottleDueToStagingIndexQueueFull",
    (429, 3096): "ThrottleDueToReplicationBackpressure",
    (429, 3097): "CollectionQuotaExceededAutopilot",
    (429, 3098): "LogStoreNoFreeSegments",
    (429, 3099): "ThrottledByBlobRead",
    (429, 3100): "OperationLogSizeTooBig",
    (429, 3101): "ArchivalPartitionPendingCatchup",
    (429, 3102): "ThrottleDueToTrafficRegulation",
    (429, 3103): "ThrottleDueToTransportBufferUsage",
    (429, 3208): "ClientTcpChannelFull",
    (429, 3209): "BWTermCountLimitExceeded",
    (429, 3211): "ThrottleDueToEncryptedRevokedStoreLogNotEmpty",
}
_LOCKS: dict[Key, str] = {
    (412, 2001): "SplitIsDisabled",
    (412, 2002): "CollectionsInPartitionGotUpdated",
    (412, 2003): "CannotAcquirePkrangesLock",
    (412, 2004): "ResourceNotFound",
    (412, 2005): "CannotAcquireOfferOwnerLock",
    (412, 2007): "CannotAcquirePkrangeLock",
    (412, 2008): "CannotAcquirePartitionLock",
    (412, 2011): "StorageSplitConflictingWithNwayThroughputSplit",
    (412, 2012): "MergeIsDisabled",
    (412, 2015): "TombstoneRecordsNotFound",
    (412, 2016): "InvalidAccountStatus",
    (412, 2017): "OfferValidationFailed",
    (412, 2018): "CannotAcquireMasterPartitionAccessLock",
    (412, 2019): "CannotAcquireInAccountRestoreLock",
    (412, 2020): "CollectionStateChanged",
    (412, 2021): "OfferScaledUpByUser",
    (412, 2101): "CannotAcquireLogStoreLoadBalanceLock",
}
_BEHIND_HEADS: dict[Key, str] = {
    (204, 2001): "MissedTargetLsn",
    (204, 2002): "MissedTargetLsnOver100",
    (204, 2003): "MissedTargetLsnOver1000",
    (204, 2004): "MissedTargetLsnOver10000",
    (204, 2011): "MissedTargetGlobalCommittedLsn",
    (204, 2012): "MissedTargetGlobalCommittedLsnOver100",
    (204, 2013): "MissedTargetGlobalCommittedLsnOver1000",
    (204, 2014): "MissedTargetGlobalCommittedLsnOver10000",
}
_TOKENS: dict[Key, str] = {
    (401, 5000): "MissingAuthHeader",
    (401, 5001): "InvalidAuthHeaderFormat",
    (401, 5003): "AadTokenInvalidFormat",
    (401, 5004): "AadTokenInvalidSignature",
    (401, 5005): "AadTokenNotYetValid",
    (401, 5006): "AadTokenExpired",
    (401, 5007): "AadTokenInvalidIssuer",
    (401, 5008): "AadTokenInvalidAudience",
    (401, 5009): "AadTokenInvalidScope",
    (401, 5010): "FailedToGetAadToken",
    (401, 5011): "AadTokenMissingObjectIdentifier",
    (401, 5013): "AadTokenRevoked",
    (401, 5200): "AadTokenInvalidSigningKey",
    (401, 5201): "AadTokenGroupExpansionError",
}
_ROLES: dict[Key, str] = {
    (403, 5301): "RbacUnauthorizedMetadataRequest",
    (403, 5302): "RbacUnauthorizedNameBasedDataRequest",
    (403, 5303): "RbacUnauthorizedRidBasedDataRequest",
    (403, 5304): "RbacRidCannotBeResolved",
    (403, 5305): "RbacMissingUserId",
    (403, 5306): "RbacMissingAction",
    (403, 5400): "RbacRequestWasNotAuthorized",
}
_INSIDE: dict[Key, str] = {
    (500, 3001): "ConfigurationNameNotEmpty",
    (500, 3002): "ConfigurationOperationCancelled",
    (500, 3003): "InvalidAccountConfiguration",
    (500, 3004): "FederationDoesNotExistOrIsLocked",
    (500, 3010): "PartitionFailoverErrorCode",
    (500, 3021): "OperationManagerDequeuePumpStopped",
    (500, 3042): "OperationCancelledWithNoRollback",
    (500, 3043): "SplitTimedOut",
}
_KEY_VAULT = (
    "AadClientCredentialsGrantFailure AadServiceUnavailable KeyVaultAuthenticationFailure KeyVaultKeyNotFound "
    "KeyVaultServiceUnavailable KeyVaultWrapUnwrapFailure InvalidKeyVaultKeyUri InvalidInputBytes "
    "KeyVaultInternalServerError KeyVaultDnsNotResolved InvalidKeyVaultCertUri InvalidKeyVaultKeyAndCertUri "
    "CustomerKeyRotated MissingRequestParameter InvalidKeyVaultSecretUri UndefinedDefaultIdentity "
    "KeyVaultOutboundDeniedByNsp KeyVaultNotFound KeyDisabledOrExpired MasterServiceUnavailable"
)
#: What the client reports when its own retries are used up: as 410 inside, as 503 to the outside.
_RETRIES_USED_UP = {
    21002: "PartitionKeyRangeGoneExceededRetryLimit",
    21003: "CompletingSplitExceededRetryLimit",
    21004: "CompletingPartitionMigrationExceededRetryLimit",
}
_MAYBE_SENT = {
    20001: "TransportGenerated410",
    20002: "TimeoutGenerated410",
    21005: "ServerGenerated410",
    21006: "GlobalStrongWriteBarrierNotMet",
    21008: "ServerGenerated503",
    21009: "NoValidStoreResponse",
    21010: "ServerGenerated408",
}
_BOTH = (410, 503)

TABLE: dict[Key, Row] = table(
    # Done.
    same("ok", "nobody", "no", "done", "done", "J H", {(200, 0): "OK", (201, 0): "Created", (202, 0): "Accepted", (204, 0): "NoContent"}),
    same("batch_failed", "caller", "no", "root", "look_inside", "M H", {(207, 0): "MultiStatus"}),
    same("not_modified", "nobody", "no", "done", "not_modified", "J P", {(304, 0): "NotModified"}),
    same("ok", "service", "yes", "not_processed", "head_behind", "R", _BEHIND_HEADS, plane="management"),
    # What can never succeed as it is.
    same("bad_request", "caller", "no", "same_answer", "bad_request", "L RR", {(400, 0): "BadRequest", (400, None): "BadRequest"}),
    same("immutable_partition_key", "caller", "no", "same_answer", "immutable_key", "R P J", {(400, 1001): "PartitionKeyMismatch"}),
    same("query_not_servable", "caller", "no", "same_answer", "query_not_servable", "R P", {(400, 1004): "CrossPartitionQueryNotServable"}),
    same("misconfigured", "caller", "no", "same_answer", "no_key_definition", "R", {(400, 1013): "PartitionKeyDefinitionNotSpecified"}, plane="management"),
    same("bad_request", "caller", "no", "same_answer", "transaction_request", "R", {
        (400, 1102): "TransactionAlreadyActive", (400, 1103): "InvalidTransactionId", (400, 1104): "CrossCollectionTransactionNotSupported",
    }),
    same("busy", "operations", "yes", "ends_by_itself", "throughput_change", "R", {(400, 3205): "AnotherOfferReplaceOperationIsInProgress"}, wait_s=60.0, plane="management"),
    same("bad_request", "caller", "no", "same_answer", "script", "R", {(400, 65535): "ScriptCompileError"}),
    same("bad_request", "caller", "no", "same_answer", "bad_body", "R", {(400, 20021): "SerializationRequestBodyInvalid"}, plane="client"),
    same("bad_request", "caller", "no", "same_answer", "method", "P H", {(405, 0): "MethodNotAllowed"}),
    same("bad_request", "caller", "no", "same_answer", "negative_timeout", "R J", {(408, 20901): "NegativeTimeoutProvided"}, plane="client"),
    same("too_large", "data-model", "no", "same_answer", "too_large", "L", {(413, 0): "RequestEntityTooLarge", (413, None): "RequestEntityTooLarge"}),
    same("too_large", "caller", "no", "same_answer", "batch_too_large", "R", {(413, 3401): "TransactionLimitExceeded"}),
    same("too_large", "caller", "no", "same_answer", "batch_reply_too_large", "R", {(413, 3402): "BatchResponseSizeExceeded"}),
    # Who may.
    same("denied", "operations", "no", "credentials", "not_signed", "J RR", {(401, 0): "Unauthorized", (401, None): "Unauthorized"}),
    same("denied", "operations", "no", "credentials", "token", "R", _TOKENS),
    same("denied", "operations", "no", "credentials", "kind_of_credential", "R", {
        (401, 5002): "AadAuthDisabled", (401, 5012): "SasTokenAuthDisabled", (401, 5202): "LocalAuthDisabled", (401, 5203): "LocalAuthDisabled",
    }),
    same("denied", "operations", "no", "credentials", "no_token", "R C", {(401, 20401): "ClientGenerated401", (401, 20402): "AuthenticationTokenAcquisitionFailed"}, plane="client"),
    same("denied", "operations", "no", "credentials", "forbidden", "J L", {(403, 0): "Forbidden", (403, None): "Forbidden"}),
    same("denied", "operations", "no", "credentials", "role", "R", _ROLES),
    same("denied", "operations", "no", "credentials", "management_by_data_plane", "R P J", {(403, 5300): "RbacOperationNotSupported"}),
    same("denied", "operations", "no", "credentials", "network", "R", {(403, 5307): "NspInboundDenied"}),
    same("misconfigured", "operations", "no", "credentials", "key_vault", "R", {(None, 4000 + n): name for n, name in enumerate(_KEY_VAULT.split())}),
    # Limits.
    same("partition_full", "data-model", "no", "same_answer", "partition_full", "R J L", {(403, 1014): "PartitionKeyQuotaOverLimit"}),
    same("quota", "capacity", "no", "same_answer", "quota", "R P", {
        (403, 1005): "ProvisionLimitReached", (403, 1010): "SharedThroughputDatabaseQuotaExceeded",
        (403, 1019): "SharedThroughputDatabaseCollectionCountExceeded", (403, 1020): "SharedThroughputDatabaseCountExceeded",
        (403, 1028): "ThroughputCapQuotaExceeded",
    }, plane="management"),
    same("bad_request", "caller", "no", "same_answer", "redundant", "R P", {
        (403, 1009): "RedundantCollectionPut", (403, 1011): "SharedThroughputOfferGrowNotNeeded", (403, 1012): "RedundantDatabasePut",
    }, plane="management"),
    same("bad_request", "caller", "no", "same_answer", "system_key", "R", {(403, 1031): "SystemPartitionKeyNotAllowed"}),
    same("owner_missing", "operations", "no", "same_answer", "soft_deleted", "R", {(403, 1034): "ResourceSoftDeleted"}, plane="management"),
    # Where.
    same("wrong_region", "service", "yes", "topology", "write_region", "R RR P", {(403, 3): "WriteForbidden"}, wait_s=1.0),
    same("wrong_region", "service", "yes", "topology", "region_left", "R RR P", {(403, 1008): "DatabaseAccountNotFound"}, wait_s=1.0),
    # What is not there.
    same("absent", "caller", "no", "same_answer", "absent", "RR J", {(404, 0): "NotFound"}),
    same("behind_session", "service", "yes", "not_processed", "behind_session", "R RR P M", {(404, 1002): "ReadSessionNotAvailable"}, wait_s=0.1),
    same("owner_missing", "operations", "no", "same_answer", "owner_missing", "R P J", {(404, 1003): "OwnerResourceNotFound"}),
    same("not_ready", "service", "yes", "not_processed", "being_created", "R P", {(404, 1013): "CollectionCreateInProgress"}, wait_s=1.0),
    same("not_ready", "service", "yes", "not_processed", "store_not_ready", "R", {(404, 1023): "StoreNotReady"}, wait_s=1.0),
    same("container_changed", "operations", "no", "caches", "container_changed", "R P J", {(400, 1024): "CollectionRidMismatch", (404, 1024): "IncorrectContainerResourceId"}),
    same("partition_moved", "service", "yes", "not_processed", "partition_migrating", "R", {
        (404, 1031): "PartitionMigratingCollectionDeleted", (404, 1034): "PartitionMigrationSourcePartitionDeletedInMaster",
    }, wait_s=1.0, plane="management"),
    same("misconfigured", "caller", "no", "same_answer", "no_offer", "R P", {(404, 10004): "OfferNotConfigured"}, plane="client"),
    same("unknown", "unknown", "look", "not_in_table", "other_404", "RR", {(404, None): "NotFound"}),
    # What moved.
    same("partition_moved", "service", "yes", "not_processed", "partition_moved", "R RR J", {(410, 0): "Gone", (410, None): "Gone", (410, 1002): "PartitionKeyRangeGone"}, wait_s=1.0),
    same("container_changed", "operations", "yes", "not_processed", "name_cache", "R P", {(410, 1000): "NameCacheIsStale"}, wait_s=1.0),
    same("partition_moved", "service", "yes", "not_processed", "splitting", "R P", {(410, 1007): "CompletingSplitOrMerge"}, wait_s=1.0),
    same("partition_moved", "service", "yes", "not_processed", "migrating", "R P", {(410, 1008): "CompletingPartitionMigration"}, wait_s=1.0),
    same("partition_moved", "service", "yes", "not_processed", "lease_moved", "R", {(410, 1022): "LeaseNotFound"}, wait_s=1.0),
    same("partition_moved", "service", "yes", "not_processed", "archival", "R", {(410, 1024): "ArchivalPartitionNotPresent"}, wait_s=1.0),
    same("container_changed", "operations", "yes", "not_processed", "name_cache", "R J", {(s, 21001): "NameCacheIsStaleExceededRetryLimit" for s in _BOTH}, wait_s=1.0, plane="client"),
    same("partition_moved", "service", "yes", "not_processed", "retries_used_up", "R J", {(s, n): name for s in _BOTH for n, name in _RETRIES_USED_UP.items()}, wait_s=1.0, plane="client"),
    same("unavailable", "service", "yes", "not_processed", "read_quorum", "R J", {(s, 21007): "ReadQuorumNotMet" for s in _BOTH}, wait_s=1.0, plane="client"),
    # What other writes did.
    same("already_exists", "caller", "no", "exists", "exists", "J RR M", {(409, 0): "Conflict"}),
    same("busy", "operations", "yes", "ends_by_itself", "control_plane", "R P", {(409, 1006): "ConflictWithControlPlane"}, wait_s=60.0, plane="management"),
    same("already_exists", "caller", "no", "exists", "name_taken", "R", {(409, 3206): "DatabaseNameAlreadyExists", (409, 3207): "ConfigurationNameAlreadyExists"}, plane="management"),
    same("unique_key", "caller", "no", "same_answer", "unique_key", "R", {(409, 3301): "UniqueIndexConflict"}),
    same("hash_collision", "data-model", "no", "same_answer", "hash_collision", "R", {(409, 3302): "PartitionKeyHashCollisionForId"}),
    same("unknown", "unknown", "look", "not_in_table", "other_409", "RR", {(409, None): "Conflict"}),
    same("stale_version", "caller", "no", "reread", "stale_version", "RR J M", {(412, 0): "PreconditionFailed"}),
    same("stale_version", "caller", "no", "reread", "patch_condition", "R N", {(412, 1110): "PatchConditionNotMet", (403, 1110): "PatchConditionNotMet"}),
    same("busy", "operations", "yes", "ends_by_itself", "management_lock", "R", _LOCKS, wait_s=60.0, plane="management"),
    same("unknown", "unknown", "look", "not_in_table", "other_412", "R", {(412, None): "PreconditionFailed"}),
    same("busy", "operations", "yes", "ends_by_itself", "scaling", "L", {(423, 0): "Locked", (423, None): "Locked"}, wait_s=60.0),
    same("failed_dependency", "caller", "no", "root", "failed_dependency", "P M", {(424, 0): "FailedDependency", (424, None): "FailedDependency"}),
    same("concurrent_write", "service", "yes", "not_processed", "concurrent_write", "J RR M", {(449, 0): "RetryWith", (449, None): "RetryWith"}, wait_s=0.05),
    same("unavailable", "service", "yes", "not_processed", "rbac_unavailable", "R", {(449, 5350): "RbacAadGroupUnavailable", (449, 5351): "AzureRbacAccessDecisionUnavailable"}, wait_s=0.5),
    same("concurrent_write", "service", "yes", "not_processed", "coordinator_race", "R", {(449, 5352): "DtcCoordinatorRaceConflict"}, wait_s=0.05),
    same("batch_failed", "caller", "no", "root", "transaction_aborted", "R", {(452, 0): "TransactionAborted", (452, None): "TransactionAborted"}),
    same("failed_dependency", "caller", "no", "root", "rolled_back", "R", {(453, 5415): "DtcOperationRolledBack", (453, None): "DtcOperationRolledBack"}),
    # Load.
    same("throttled", "capacity", "yes", "not_processed", "request_units", "R J RR", {(429, 3200): "RUBudgetExceeded"}, wait_s=1.0),
    same("throttled", "capacity", "yes", "not_processed", "throttled", "RR J", {(429, 0): "TooManyRequests", (429, None): "TooManyRequests"}, wait_s=1.0),
    same("throttled", "caller", "yes", "not_processed", "metadata", "R J", {(429, 3201): "GatewayThrottled", (429, 3210): "RUBudgetExceededForMaster"}, wait_s=1.0),
    same("throttled", "capacity", "yes", "not_processed", "per_minute", "R", {(429, 3202): "RUpmPartitionLimitExceeded", (429, 3203): "RUpmSharedBudgetExceeded"}, wait_s=1.0),
    same("throttled", "operations", "yes", "not_processed", "scale_down", "R", {(429, 3204): "ThrottledOfferScaleDown"}, wait_s=60.0, plane="management"),
    same("throttled", "service", "yes", "not_processed", "prepare_time", "R", {(429, 3207): "PrepareTimeLimitExceeded"}, wait_s=1.0),
    same("throttled", "capacity", "yes", "not_processed", "bucket", "R", {(429, 3212): "ThroughputBucketLimitExhausted"}, wait_s=1.0),
    same("throttled", "operations", "yes", "not_processed", "bucket_updates", "R", {(429, 3213): "TooManyThroughputBucketUpdates"}, wait_s=60.0, plane="management"),
    same("hot_key", "data-model", "yes", "not_processed", "hot_key", "R", {(429, 3214): "HotPartitionKeyThrottled"}, wait_s=1.0),
    same("throttled", "capacity", "yes", "not_processed", "fabric", "R", {(429, 3300): "MicrosoftFabricCUBudgetExceeded"}, wait_s=1.0),
    same("throttled", "service", "yes", "not_processed", "inside_the_service", "R J", _QUEUES, wait_s=1.0),
    same("throttled", "service", "yes", "not_processed", "staleness_bound", "R", {(429, 3074): "StalenessExceededBound"}, wait_s=1.0),
    same("throttled", "caller", "yes", "not_processed", "procedures", "R", {(429, 3084): "StoredProcedureConcurrency"}, wait_s=1.0),
    same("throttled", "service", "yes", "not_processed", "other_region", "R RR", {(429, 3092): "SystemResourceUnavailable"}, wait_s=1.0),
    same("throttled", "caller", "yes", "not_processed", "own_control", "R", {(429, 10003): "ThroughputControlRequestRateTooLarge", (429, 10005): "ThroughputControlBulkRequestRateTooLarge"}, wait_s=1.0, plane="client"),
    # Nobody knows.
    same("unknown_outcome", "service", "reads", "unknown", "timeout", "RR J", {(408, 0): "RequestTimeout", (408, None): "RequestTimeout"}, wait_s=0.5),
    same("unknown_outcome", "service", "reads", "unknown", "preempted", "R", {(408, 1900): "RequestPreempted"}, wait_s=0.5),
    same("unknown_outcome", "caller", "reads", "unknown", "own_deadline", "R J P", {(408, 20008): "ClientOperationTimeout"}, wait_s=0.5, plane="client"),
    same("unknown_outcome", "service", "reads", "unknown", "internal", "RR J", {(500, 0): "InternalServerError", (500, None): "InternalServerError"}, wait_s=0.5),
    same("unknown_outcome", "service", "reads", "unknown", "internal_management", "R", _INSIDE, wait_s=0.5, plane="management"),
    same("unknown_outcome", "service", "reads", "unknown", "coordinator", "R", {(500, 5411): "DtcLedgerFailure", (500, 5412): "DtcAccountConfigFailure", (500, 5413): "DtcDispatchFailure"}, wait_s=0.5),
    same("unknown_outcome", "service", "reads", "unknown", "unreadable", "R", {(500, 20020): "SerializationResponseBodyInvalid"}, wait_s=0.5, plane="client"),
    same("unknown_outcome", "operations", "reads", "unknown", "proxy", "RR J", {(502, 0): "BadGateway", (502, None): "BadGateway", (504, 0): "GatewayTimeout", (504, None): "GatewayTimeout"}, wait_s=0.5),
    same("unknown_outcome", "service", "reads", "unknown", "maybe_sent", "R J RR", {(s, n): name for s in _BOTH for n, name in _MAYBE_SENT.items()}, wait_s=0.5, plane="client"),
    same("unknown_outcome", "service", "reads", "unknown", "maybe_sent", "R", {(503, 20003): "TransportGenerated503", (503, 20011): "TransportIoFailed", (503, 20014): "TransportBodyReadFailed"}, wait_s=0.5, plane="client"),
    same("unknown_outcome", "service", "look", "retriable_writes", "retriable_writes", "R", {
        (None, 5401): "InitialRetriableWriteRequestCompleted", (None, 5402): "DuplicateRetriableWriteRequest",
        (None, 5403): "ConflictOperationInUserTransaction", (None, 5404): "RetriableWriteRequestResponseExpiredInPrimaryCache",
    }),
    # Not now.
    same("unavailable", "service", "yes", "refused_503", "unavailable", "RR M", {(503, 0): "ServiceUnavailable"}, wait_s=1.0),
    same("unknown_outcome", "service", "reads", "unknown", "other_503", "RR", {(503, None): "ServiceUnavailable"}, wait_s=1.0),
    same("unavailable", "capacity", "yes", "not_processed", "region_full", "R P", {(503, 1007): "InsufficientBindablePartitions", (503, 9003): "InsufficientCapacity"}, wait_s=1.0),
    same("unavailable", "service", "yes", "not_processed", "federation", "R", {(503, 1012): "ComputeFederationNotFound"}, wait_s=1.0),
    same("unavailable", "service", "yes", "not_processed", "replicas", "R", {(503, 1337): "GoneException", (503, 1338): "QuorumNotMet", (503, 1339): "TooManyTentativeWritesToSatelliteRegion"}, wait_s=1.0),
    same("unavailable", "service", "yes", "not_processed", "offline", "R", {(503, 9001): "OperationPaused", (503, 9002): "ServiceIsOffline"}, wait_s=1.0),
    same("unavailable", "operations", "yes", "not_processed", "not_connected", "R", {(503, 20010): "TransportConnectionFailed", (503, 20012): "TransportDnsFailed", (0, 4): "NotConnected"}, wait_s=1.0, plane="client"),
    same("unavailable", "service", "yes", "not_processed", "ranges_inconsistent", "P", {(503, 21015): "RoutingMapSnapshotInconsistent"}, wait_s=1.0, plane="client"),
    # No answer at all.
    same("unknown_outcome", "operations", "reads", "unknown", "said_not_sent", "C M", {(0, 1): "ServiceRequestError"}, wait_s=0.5, plane="client"),
    same("unknown_outcome", "operations", "reads", "unknown", "no_reply", "C M", {(0, 2): "ServiceResponseError"}, wait_s=0.5, plane="client"),
    same("unknown_outcome", "caller", "reads", "unknown", "own_deadline", "C", {(0, 3): "TimeoutError", (0, 5): "Cancelled"}, wait_s=0.5, plane="client"),
    same("unknown_outcome", "service", "reads", "unknown", "empty_batch", "N", {(0, 6): "BatchWithoutResults"}, plane="client"),
)  # fmt: skip
#: What is not in the table.
UNKNOWN = Row("", "unknown", "unknown", "look", "not_in_table", "unknown", "")
