"""The texts of the table in English: by key, the cause and the next step."""

from __future__ import annotations

from azlatch.contracts.words import Text

TEXTS: dict[str, Text] = {
    "done": Text(
        "The service did what was asked.",
        "Nothing.",
    ),
    "look_inside": Text(
        "The batch was answered as a whole, and at least one of its operations failed: nothing of it was "
        "applied.",
        "Look at the results of the operations: the one that is not 424 is the cause.",
    ),
    "not_modified": Text(
        "There is nothing newer than what the request named: a conditional read, or the end of a change "
        "feed for now.",
        "Use what you have; ask again later.",
    ),
    "head_behind": Text(
        "The answer to a HEAD request: the replica is behind the position that was asked for.",
        "Nothing for an application to do; ask again if you wait for that position.",
    ),
    "bad_request": Text(
        "The request is wrong as it is written: its syntax, its body, an illegal id, a ttl of 0 or null, "
        "or a partition key outside of the range that was addressed.",
        "Correct the request; the message of the answer names the part.",
    ),
    "immutable_key": Text(
        "The partition key of the request is not the one in the item. This is what an attempt to change "
        "the partition key of an item in place gets: that cannot be done.",
        "Pass the key that the item has. To move an item, create it under the new key first and delete the "
        "old one, conditionally, after that.",
    ),
    "wrong_key": Text(
        "The partition key of the request does not fit the container or the item.",
        "Pass the value that the item has at the container's partition key path, all levels of it.",
    ),
    "query_not_servable": Text(
        "The gateway cannot run this query over all partitions by itself.",
        "Let the SDK plan it (a current SDK does), give a partition key, or write the query more simply.",
    ),
    "no_key_definition": Text(
        "The container was to be made without a partition key definition.",
        "Name the partition key path.",
    ),
    "transaction_request": Text(
        "The request names a distributed transaction that is already active, does not exist, or spans what "
        "it must not.",
        "Start a new transaction, within the limits of the feature.",
    ),
    "throughput_change": Text(
        "Another change of the throughput is still running.",
        "Wait until it has ended, then change it again.",
    ),
    "script": Text(
        "The text of a stored procedure, trigger or function does not compile.",
        "Correct the script.",
    ),
    "bad_body": Text(
        "The client could not write the body of the request: it never left the program.",
        "Give an item of plain JSON types.",
    ),
    "method": Text(
        "The service does not offer this HTTP method there.",
        "Check the address and the client that sent it.",
    ),
    "negative_timeout": Text(
        "The program gave a negative time limit; nothing was sent.",
        "Correct the computation of the time limit.",
    ),
    "too_large": Text(
        "The item or the request is larger than 2 MB.",
        "Make the item smaller: split it, or keep the large part in a blob and its address in the item.",
    ),
    "batch_too_large": Text(
        "The batch is larger than a transaction may be.",
        "Split it, where its parts need not hold together; else make its items smaller. It takes 100 "
        "operations and 2 MB.",
    ),
    "batch_reply_too_large": Text(
        "The answer to the batch would be larger than allowed.",
        "Split the batch, or do not ask for the items back.",
    ),
    "not_signed": Text(
        "The credential was not accepted: a wrong or rotated key, a clock that is wrong, or a missing "
        "identity.",
        "Check key, clock and identity of this instance; after a rotation restart what still has the old key.",
    ),
    "token": Text(
        "The Entra ID token was not accepted: missing, malformed, expired, revoked, or for another audience.",
        "Get a new token; if that does not help, check tenant, audience and clock.",
    ),
    "kind_of_credential": Text(
        "The account does not take this kind of credential: keys or Entra ID are switched off on it.",
        "Use the kind that the account allows; switching one on is a decision about security.",
    ),
    "no_token": Text(
        "The client could not get or make a credential; the request never left.",
        "Check the identity that the platform gives this program, and the way to Entra ID.",
    ),
    "forbidden": Text(
        "The credential is known, and may not do this: a role that is missing, a firewall, or a private "
        "network.",
        "Check role assignments of the data plane, firewall and private endpoints of the account.",
    ),
    "role": Text(
        "The Entra ID identity has no data-plane role that allows this there.",
        "Assign a Cosmos DB data-plane role to the identity at the right scope; give it some minutes to "
        "spread.",
    ),
    "management_by_data_plane": Text(
        "Entra ID identities cannot make or change databases and containers through the data plane.",
        "Make them with the management plane (az cosmosdb, Bicep, Terraform), and let the program only use "
        "them.",
    ),
    "network": Text(
        "A network security perimeter refused the connection.",
        "Allow this network in the perimeter, or connect from inside.",
    ),
    "key_vault": Text(
        "The customer-managed key of the account cannot be used: Key Vault, its address, the key or the "
        "identity.",
        "Check key, vault, its network rules and the identity of the account. Until then the account "
        "answers nothing.",
    ),
    "partition_full": Text(
        "The logical partition of this key holds 20 GB: it takes no more.",
        "Give the data a key with more values, or a hierarchical key, and move it. Until then delete or "
        "expire items of this key; support can raise the limit for a time.",
    ),
    "quota": Text(
        "A limit of the account, or of a database with shared throughput, is reached.",
        "Raise the limit, free something, or put the container elsewhere.",
    ),
    "redundant": Text(
        "A management request for what is already so.",
        "Read the state and leave the request out.",
    ),
    "system_key": Text(
        "This partition key is reserved for the service.",
        "Use another value.",
    ),
    "soft_deleted": Text(
        "The resource was deleted and can still be restored.",
        "Restore it, or wait until it is purged before the name is used again.",
    ),
    "write_region": Text(
        "This region does not take writes now: a failover took place, or the client's list of regions is old.",
        "Let the client read the account again and send the write to the write region. The SDK does so by "
        "itself, unless endpoint discovery is switched off.",
    ),
    "region_left": Text(
        "This region does not know the account any more: it failed over, or the region was removed.",
        "Let the client read the account again and use another region; check the preferred locations.",
    ),
    "absent": Text(
        "No item has this id in this logical partition. An item under another partition key looks the "
        "same, and so does one that a weaker consistency level does not show yet.",
        "Check that the partition key is the item's own. Then take it as absent.",
    ),
    "behind_session": Text(
        "The replica has not yet what the session token says was already seen. It says nothing about "
        "whether the item is there.",
        "Ask again, with the same token, within a deadline, or in the write region. Never take it for an "
        "absence. If it lasts, the token is from another container, another account or before a failover.",
    ),
    "owner_missing": Text(
        "The database or the container does not exist.",
        "Check the names and the account; make what is missing. Just after it was made, wait a moment.",
    ),
    "owner_missing_for": Text(
        "What the request needs, the database or the container, does not exist: an item was not needed for it.",
        "Check the names and the account; make what is missing. Just after it was made, wait a moment.",
    ),
    "being_created": Text(
        "The container is being made.",
        "Ask again shortly.",
    ),
    "store_not_ready": Text(
        "The replica is starting.",
        "Ask again shortly.",
    ),
    "container_changed": Text(
        "The container was deleted and made again under its name: what the client knows of it is from the "
        "old one.",
        "Let the client read the container again, and drop session tokens, continuations and stored "
        "positions of the old one. Ask who made it again: the old items are gone.",
    ),
    "partition_migrating": Text(
        "The physical partition is moving, or its old place is gone.",
        "Ask again shortly.",
    ),
    "no_offer": Text(
        "No throughput is set for this container or database itself.",
        "Ask for the throughput where it is set: the database, or none at all on a serverless account.",
    ),
    "other_404": Text(
        "Something is not there, and the substatus that says what is not one that is documented.",
        "Do not take it for the absence of an item. Look the substatus up, or ask support with the "
        "activity id.",
    ),
    "partition_moved": Text(
        "The physical partition was split, merged or moved.",
        "Let the client read the ranges again, which the SDK does, and ask again.",
    ),
    "name_cache": Text(
        "What the client knows of the container's name is old: the container was made again.",
        "Let the client read it again, which the SDK does, and ask again; drop session tokens of the old one.",
    ),
    "splitting": Text(
        "A split or a merge of the physical partition is being completed.",
        "Ask again shortly; it takes seconds, seldom more.",
    ),
    "migrating": Text(
        "The physical partition is being moved to another machine.",
        "Ask again shortly.",
    ),
    "lease_moved": Text(
        "The replica has moved.",
        "Ask again shortly.",
    ),
    "archival": Text(
        "The archival partition is not there.",
        "Ask again shortly; if it lasts, ask support.",
    ),
    "retries_used_up": Text(
        "The client tried for some time to follow a split, a merge or a move, and gave up.",
        "Ask again after a pause; if it lasts for minutes, ask support.",
    ),
    "read_quorum": Text(
        "Too few replicas answered for a read of this consistency level.",
        "Ask again; if it lasts, read in another region or at a weaker level, on purpose only.",
    ),
    "exists": Text(
        "An item with this id is already in this logical partition (or, with some services, the values of "
        "a unique key).",
        "Read it and decide: it is someone else's, or your own from an attempt whose reply was lost.",
    ),
    "unique_or_id": Text(
        "Another item of the logical partition has the same values in a unique key, or has the new id.",
        "Find that item by the unique key, and decide which of the two is right.",
    ),
    "control_plane": Text(
        "A management operation on the container is running.",
        "Wait until it has ended, and send it again.",
    ),
    "name_taken": Text(
        "The name is in use.",
        "Use what is there, or another name.",
    ),
    "unique_key": Text(
        "Another item of the logical partition has the same values at the paths of a unique key.",
        "Find that item by those values, and decide which of the two is right. An upsert is no cure: it "
        "answers the same.",
    ),
    "hash_collision": Text(
        "An item with this id is there under another partition key that has the same hash.",
        "Use another id for the new item.",
    ),
    "other_409": Text(
        "A conflict whose substatus is not one that is documented.",
        "Read what is stored and compare; look the substatus up, or ask support with the activity id.",
    ),
    "stale_version": Text(
        "The item is not in the version that the condition names: someone else wrote in between.",
        "Read it again, reconcile your change with theirs, and send the result with the new ETag. Never "
        "drop the condition.",
    ),
    "patch_condition": Text(
        "The condition of the patch does not hold for the item as it is stored.",
        "Read the item and decide whether the change is still wanted. Never drop the condition.",
    ),
    "management_lock": Text(
        "A management operation (a split, a merge, a change of throughput, a restore) holds what the "
        "request needs. It has nothing to do with ETags.",
        "Wait until it has ended, and send it again.",
    ),
    "other_412": Text(
        "A condition failed, and the substatus that says which is not one that is documented.",
        "Do not take it for a stale ETag before you have read the item and compared. Look the substatus up.",
    ),
    "scaling": Text(
        "A scale operation of the container is running.",
        "Wait until it has ended, and send it again.",
    ),
    "failed_dependency": Text(
        "This operation was not applied because another operation of the same batch failed. It is never "
        "the cause.",
        "Find the operation of the batch whose status is not 424, and act on that.",
    ),
    "concurrent_write": Text(
        "The service met another write to the same item at the same moment. No ETag is involved, and "
        "nothing was applied.",
        "Send it again after a short, growing pause. The SDK for Python does not do so by itself.",
    ),
    "rbac_unavailable": Text(
        "The service could not find out in time what the identity may do.",
        "Send it again shortly.",
    ),
    "coordinator_race": Text(
        "Two coordinators of a distributed transaction met.",
        "Send it again after a short pause.",
    ),
    "transaction_aborted": Text(
        "A distributed transaction was given up: nothing of it was applied.",
        "Look at the results of its operations: the one that is not rolled back is the cause.",
    ),
    "rolled_back": Text(
        "This operation was rolled back because another operation of the distributed transaction failed. "
        "It is never the cause.",
        "Find the operation that is the cause, and act on that.",
    ),
    "request_units": Text(
        "The request units per second of the physical partition are used up. Nothing was applied.",
        "Wait for as long as the answer says. If it lasts: find what costs most, spread the key, or raise "
        "the throughput. One to five per cent of 429 is healthy.",
    ),
    "throttled": Text(
        "More requests than are served just now. Nothing was applied.",
        "Wait for as long as the answer says. The substatus says whether request units, a hot key or "
        "metadata is the cause: log it.",
    ),
    "metadata": Text(
        "Too many requests for metadata: databases, containers, ranges, throughput. More request units do "
        "not help.",
        "Keep one client for the whole program, and do not make or read databases and containers for each "
        "request.",
    ),
    "per_minute": Text(
        "The request units per minute are used up.",
        "Wait for as long as the answer says; raise the throughput if it lasts.",
    ),
    "scale_down": Text(
        "The throughput is being lowered.",
        "Wait until that has ended.",
    ),
    "prepare_time": Text(
        "A transaction could not be prepared in the time it has.",
        "Send it again after a pause; make the transaction smaller.",
    ),
    "bucket": Text(
        "The throughput bucket of this client has used up its share.",
        "Wait for as long as the answer says; raise the share of the bucket, or move work to another.",
    ),
    "bucket_updates": Text(
        "The throughput buckets were changed too often.",
        "Change them less often.",
    ),
    "hot_key": Text(
        "One logical partition key gets more requests than one key can serve, while other keys wait for "
        "nothing. More throughput helps little.",
        "Wait, then change the model: a key with more values, a hierarchical key, or a suffix that spreads "
        "this key.",
    ),
    "fabric": Text(
        "The capacity units of Microsoft Fabric are used up.",
        "Wait, or raise the capacity.",
    ),
    "inside_the_service": Text(
        "The service protects itself: a queue, a log or a machine of its own is full. It is not your budget.",
        "Wait for as long as the answer says. If it lasts, ask support with the activity id.",
    ),
    "staleness_bound": Text(
        "A region lags further behind than bounded staleness allows: writes are held back until it has "
        "caught up.",
        "Wait for as long as the answer says; if it lasts, look at the health of the regions.",
    ),
    "procedures": Text(
        "Too many stored procedures run in the partition at once.",
        "Run fewer at a time.",
    ),
    "other_region": Text(
        "The machine that serves the partition has no resources left.",
        "Use another region if the account has one; else wait.",
    ),
    "own_control": Text(
        "The program's own throughput control held the request back: it never left.",
        "Wait, or give this group a larger share.",
    ),
    "timeout": Text(
        "The service did not finish in time. Of a write nobody knows whether it was applied.",
        "Read the item and compare before you write again.",
    ),
    "preempted": Text(
        "The service interrupted the request because it ran for too long. Of a write nobody knows whether "
        "it was applied.",
        "Make the request smaller; read the item and compare before you write again.",
    ),
    "own_deadline": Text(
        "The time limit of the program ended while the request was under way. Of a write nobody knows "
        "whether it was applied.",
        "Read the item and compare before you write again; check that the limit is longer than the way to "
        "the region.",
    ),
    "internal": Text(
        "An error inside the service. Of a write nobody knows whether it was applied.",
        "Read the item and compare before you write again. If it lasts, ask support with the activity id.",
    ),
    "internal_management": Text(
        "A management operation failed inside the service.",
        "Read the state of the resource before you ask again. If it lasts, ask support with the activity id.",
    ),
    "coordinator": Text(
        "The coordinator of a distributed transaction failed: nobody knows whether it was applied.",
        "Read what it writes and compare before you send it again.",
    ),
    "unreadable": Text(
        "The answer came and could not be read: the request was probably carried out.",
        "Read the item and compare before you write again.",
    ),
    "proxy": Text(
        "A proxy or gateway between the program and the service answered in its place. Of a write nobody "
        "knows whether it was applied.",
        "Read the item and compare before you write again; take the proxy out of the way, or raise its "
        "time limits.",
    ),
    "maybe_sent": Text(
        "The client made this answer itself after the connection or the replicas failed: the request may "
        "have been carried out.",
        "Read the item and compare before you write again.",
    ),
    "retriable_writes": Text(
        "An answer about an earlier attempt of the same write.",
        "Read the item: the earlier attempt decides.",
    ),
    "unavailable": Text(
        "The service did not process the request: a failover, a restart, or too little capacity.",
        "Send it again after a pause, or in another region. A proxy may say 503 about what it does not "
        "know: a condition or an operation id in the item keeps a repetition harmless.",
    ),
    "other_503": Text(
        "The request was refused or lost on its way, and the substatus that says which is not one that is "
        "documented.",
        "Read the item and compare before you write again.",
    ),
    "region_full": Text(
        "The region has no capacity for this now.",
        "Use another region, or less throughput; ask support for capacity.",
    ),
    "federation": Text(
        "The part of the service that should serve this was not found.",
        "Send it again after a pause; if it lasts, ask support with the activity id.",
    ),
    "replicas": Text(
        "Too few replicas could take part.",
        "Send it again after a pause.",
    ),
    "offline": Text(
        "The service, or this operation of it, is paused.",
        "Wait; look at the service's health page.",
    ),
    "not_connected": Text(
        "No connection was made: nothing was sent.",
        "Check name, network, firewall and private endpoint; send it again.",
    ),
    "ranges_inconsistent": Text(
        "The client read a list of physical partitions that contradicts itself, as can happen during a split.",
        "Send it again after a pause.",
    ),
    "said_not_sent": Text(
        "The client says that the request was not sent. The asyncio client says the same of a connection "
        "that was closed after the request was carried out, and sends it again: of a write nobody knows "
        "how often it was applied.",
        "Read the item and compare before you write again. Check name and network of the account.",
    ),
    "no_reply": Text(
        "The request was sent and no whole reply came. Of a write nobody knows whether it was applied.",
        "Read the item and compare before you write again.",
    ),
    "empty_batch": Text(
        "The batch was answered without results for its operations: nobody knows whether it was applied.",
        "Read an item that the batch writes, and compare before you send it again.",
    ),
    "other_status": Text(
        "Nothing is known of this status.",
        "Look it up in the documentation of the service, or ask support with the activity id.",
    ),
    "unknown": Text(
        "This is no answer of Cosmos DB that is in the table.",
        "Give status and substatus (404/1002), the exception, or the line of the log with both numbers.",
    ),
}
