"""The order of the modules of each package, checked by ``test_imports.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LAYERS", "ORDER", "PARTS", "TABLE"]

# Lowest first: a module imports only what stands above it in its list, also for type
# checkers.
ORDER: Mapping[str, tuple[str, ...]] = {
    "queuebroker": (
        "errors",
        "_green",
        "_sync",
        "waiting",
        "_net",
        "observer",
        "arguments",
        "closable",
        "channel",
        "first",
        "lockfree",
        "meeting",
        "java",
        "sockets",
        "aio",
        "testing",
    ),
    "queuebroker.waiting": (
        "adaptive_spin",
        "parking",
        "readiness",
        "shared_parker",
    ),
    "queuebroker._net": (
        "polling",
        "sockets",
        "datagrams",
        "tls",
        "socket_files",
        "sleeper",
        "processes",
    ),
    "queuebroker.lockfree": (
        "sleepers",
        "lock_free_buffer",
        "lock_free_connection",
        "fast_queue",
    ),
    "queuebroker.sockets": (
        "states",
        "errors",
        "address",
        "descriptors",
        "memory",
        "peer",
        "frames",
        "gathering",
        "frame_reader",
        "protocol",
        "driver",
        "read_owner",
        "unsent",
        "incoming",
        "options",
        "tls",
        "served_socket",
        "link_writer",
        "link",
        "connection",
        "queue",
        "incoming_connect",
        "listener",
        "read_lease",
        "outgoing_connect",
        "broker",
    ),
    "queuebroker.aio": (
        "waker",
        "waiting",
        "message_queue",
        "first",
        "queue_broker",
        "socket_broker",
        "wrapping",
    ),
    "bus": (
        "errors",
        "error_text",
        "requirements",
        "address",
        "registration",
        "empty_view",
        "arrays",
        "loan",
        "payload_depth",
        "payload_size",
        "payload",
        "message",
        "events",
        "specification",
        "rights",
        "access",
        "role",
        "config",
        "durability",
        "keys",
        "network",
        "snapshot",
        "at_exit",
        "core",
        "horizon",
        "threads",
        "multicast",
        "links",
        "pattern",
        "journal",
        "api",
        "service",
        "sp_gateway",
        "testing",
        "pipeline",
        "demo",
        "cli",
        "__main__",
    ),
    "bus.errors": (
        "bus_error",
        "caller",
        "bounds",
        "delivery",
        "machines",
        "wire",
        "tools",
    ),
    "bus.horizon": (
        "horizons",
        "format",
        "storage",
        "log",
        "store",
    ),
    "bus.core": (
        "constants",
        "deadlines",
        "timers",
        "streams",
        "wire",
        "discovery",
        "local",
        "peer",
        "hooks",
        "remote",
    ),
    "bus.core.discovery": (
        "announcement_reader",
        "machine_table",
        "discovery",
    ),
    "bus.core.wire": (
        "version",
        "lengths",
        "parts",
        "announcement",
        "frames",
        "batch",
        "link_frames",
        "stream_frames",
        "task_frames",
        "codec",
        "memory_frames",
        "single",
        "frame_reader",
    ),
    "bus.core.streams": (
        "missing_table",
        "receipts",
        "incoming_stream",
        "incoming_streams",
        "outgoing_stream",
    ),
    "bus.core.local": (
        "routing_table",
        "specification_trie",
        "interests",
        "trace",
        "inbound_run",
        "actions",
        "parked_list",
        "departures",
        "remote_tasks",
        "remote",
        "process_manager",
        "local_subscriptions",
    ),
    "bus.core.peer": (
        "outbound_run",
        "relay_counters",
        "delayed_acks",
        "session",
        "answer_backlog",
        "relay_peer",
        "run_queue",
        "relay",
        "peer",
    ),
    "bus.core.remote": (
        "topology",
        "requests",
        "handshake",
        "link",
        "user_routing_table",
        "pending_names",
        "name_registry",
        "proxies",
        "relays",
        "outbound_messages",
        "undelivered_messages",
        "inbound",
        "inbound_messages",
        "master_dialler",
        "name_conflicts",
        "link_table",
        "keep_alive",
        "idle_relays",
        "own_searches",
        "any_machine",
        "resolver",
        "idle_links",
        "process_loss",
        "task_announcer",
        "control_frames",
        "remote_manager",
        "machine_dialler",
        "new_addresses",
        "fast_path",
        "remote_presence",
        "confirmations",
        "matches",
        "remote_subscriptions",
        "frame_facts",
        "frame_monitor",
    ),
    "bus.threads": (
        "account",
        "dropping_account",
        "verdict",
        "delivery",
        "comm",
        "mailbox",
        "inbox",
        "callback_failures",
        "internal_errors",
        "scheduler",
        "thread_manager",
        "host_thread",
        "opening",
        "registration_attempt",
        "emptying",
        "undoable",
        "parked_expiry",
        "fast_delivery",
        "exchange",
        "binding",
        "router",
    ),
    "bus.links": (
        "unsent",
        "peer_log",
        "frame_readers",
        "acknowledgement_tracker",
        "send_batch",
        "batch_room",
        "audience_account",
        "relay_account",
        "inbound_delivery",
        "join_state",
        "monitor_leases",
        "link_poller",
        "link_policy",
        "connect_failure",
        "link_helpers",
        "link_pool",
        "link_setup",
        "relay_outbox",
        "lease_account",
        "task_loans",
        "shared_bodies",
        "lent_bodies",
        "link_memory",
        "rounds",
        "shutdown",
        "fast_path_driver",
        "run_directory",
        "comm_thread",
        "process_network",
        "memory",
        "peer_trust",
        "gateway_address",
        "gateway_requests",
        "gateway_client",
        "gateway_server",
        "socket_listeners",
        "announcement_group",
        "announcer",
        "machine_id",
        "peer_probe",
        "announcement_survey",
        "socket_network",
        "machine_discovery",
    ),
    "bus.keys": (
        "secret_files",
        "certificates",
        "machine_keys",
        "authority",
    ),
    "bus.multicast": (
        "field",
        "control_block",
        "direct_control_block",
        "indirect_control_block",
        "queue_control_block",
        "layout",
        "control_region",
        "descriptor",
        "data_region",
        "free_queue",
        "user_queue",
        "block_supply",
        "chain",
        "whole_chains",
        "buffer_chains",
        "excerpt",
        "recipient",
        "census",
        "audit",
        "reader",
        "pool",
        "placement",
        "shared_memory",
        "open_memory",
        "memory_mapping",
        "lent_view",
        "arena_loan",
        "slab_buffer",
        "slab",
        "slab_set",
        "arena_recipient",
        "arena_audit",
        "arena",
        "slab_mappings",
    ),
    "bus.cli": (
        "progress",
        "numbers",
        "demo_events",
        "target",
        "text",
        "exits",
        "json_text",
        "suite",
        "conformance",
        "check",
        "keys",
        "journal",
        "pipeline",
        "demo",
        "run_directory",
        "queries",
        "live",
        "bench",
        "finding",
        "shared_names",
        "network_doctor",
        "doctor",
        "look",
        "machines",
        "shm",
        "route",
        "monitor",
        "talk",
        "socket_session",
        "sockets",
        "top",
    ),
    "bus.pattern": (
        "wire",
        "protocol",
        "drop_reason",
        "message_run",
        "native",
        "redial",
        "fair_queue",
        "send_queue",
        "loop_guard",
        "repeat_filter",
        "socket_config",
        "socket_url",
        "pipe",
        "drop_ledger",
        "socket_state",
        "inbound_messages",
        "peer_pipes",
        "outbound_messages",
        "socket_stats",
        "framing",
        "node",
        "stream_writer",
        "stream_connection",
        "inproc",
        "group",
        "listener",
        "dialler",
        "sp_socket",
        "any_bus_socket",
        "bus_socket",
        "raw_bus_socket",
        "pair_socket",
        "device",
        "aio",
    ),
    "bus.pattern.aio": (
        "sp_socket",
        "bus_socket",
        "raw_bus_socket",
        "pair_socket",
        "wrapping",
    ),
    "bus.api": (
        "arguments",
        "reentry",
        "lifetime",
        "orphans",
        "unanswered",
        "questions",
        "run_callback",
        "asker",
        "command_handle",
        "stuck_callback",
        "bus_thread",
        "bus_threads",
        "task_owner",
        "responder",
        "delivery_failures",
        "receiver",
        "sender",
        "awaited_outcome",
        "awaited_command",
        "loans",
        "awaited_binding",
        "subscription",
        "inspection",
        "inspector",
        "call",
        "task",
        "notification_iterator",
        "task_registration",
        "hand_over",
        "features",
        "addresses",
        "network_node",
        "new_exchange",
        "implicit_tasks",
        "foreign_tasks",
        "bus",
        "membership",
    ),
}

# The lower parts of the bus, lowest first. A module of a layer imports its own part and
# those before it, and no other; the highest one also imports the table of features.
# `allowed_imports.txt` lists the exceptions that are still to be cut.
LAYERS = ("model", "kernel", "process", "api")
TABLE = "features"
# The exceptions that stay: a public signature names a class of a feature, and
# `typing.get_type_hints` evaluates it.
SIGNATURES = (
    "features/durable: api/bus -> durability",
    "features/subscriptions: api/bus -> api/subscription",
    "features/subscriptions: api/task -> api/subscription",
)
# Each module of the bus, by the part that it belongs to: "a" is a module, "a/" a folder
# of which everything belongs to the part, and "a:" the folder of the words behind it.
PARTS: Mapping[str, str] = {
    "model": """
        access address arrays config empty_view error_text errors/ events loan message
            payload payload_depth payload_size registration rights role snapshot
            specification
    """,
    "kernel": """
        core: __init__ constants deadlines hooks timers peer/
        core/local: __init__ actions departures inbound_run parked_list
            process_manager remote routing_table trace
        core/remote: __init__ control_frames fast_path handshake
            idle_links idle_relays inbound inbound_messages keep_alive link link_table
            master_dialler name_registry outbound_messages own_searches
            pending_names process_loss proxies relays remote_manager requests resolver
            task_announcer topology undelivered_messages user_routing_table
        core/streams: __init__ incoming_stream incoming_streams missing_table
            outgoing_stream receipts
        core/wire: __init__ batch codec frame_reader frames lengths link_frames parts
            single stream_frames task_frames version
    """,
    "process": """
        at_exit
        links: __init__ acknowledgement_tracker audience_account batch_room
            comm_thread connect_failure fast_path_driver frame_readers
            inbound_delivery join_state link_helpers link_policy link_poller link_pool
            link_setup machine_id memory peer_log process_network
            relay_account relay_outbox rounds run_directory send_batch shutdown
            socket_listeners socket_network unsent
        threads: __init__ account callback_failures comm delivery dropping_account
            emptying exchange fast_delivery host_thread inbox internal_errors mailbox
            opening parked_expiry registration_attempt router scheduler thread_manager
            undoable verdict
    """,
    "api": """
        service
        api: __init__ addresses arguments asker awaited_command awaited_outcome bus
            bus_thread bus_threads call command_handle delivery_failures foreign_tasks
            implicit_tasks lifetime network_node new_exchange orphans
            questions receiver reentry responder run_callback sender stuck_callback
            task task_owner task_registration unanswered
    """,
    "features": "api: features",
    "features/subscriptions": """
        api: notification_iterator subscription
        core/local: interests local_subscriptions remote_tasks specification_trie
        core/remote: confirmations matches remote_presence remote_subscriptions
    """,
    "features/memory": """
        multicast/
        api: loans
        cli: shm
        core/wire: memory_frames
        links: lease_account lent_bodies link_memory shared_bodies task_loans
    """,
    "features/machines": """
        keys/ network
        api: awaited_binding
        cli: keys machines network_doctor shared_names
        core: discovery/
        core/remote: any_machine machine_dialler name_conflicts
        core/wire: announcement
        links: announcement_group announcement_survey announcer gateway_address
            gateway_client gateway_requests gateway_server machine_discovery
            peer_probe peer_trust
        threads: binding
    """,
    "features/durable": """
        durability horizon/
    """,
    "features/moving": """
        api: hand_over
        core/remote: new_addresses
    """,
    "features/watching": """
        api: inspection inspector
        cli: look monitor queries route top
        core/remote: frame_facts frame_monitor
        links: monitor_leases
    """,
    "recording": """
        journal/ pipeline/
        cli: check journal pipeline
    """,
    "pattern": """
        pattern/ sp_gateway
        cli: socket_session sockets
    """,
    "demo": """
        demo/
        cli: demo demo_events
    """,
    "cli": """
        cli: __init__ bench conformance doctor exits finding json_text live numbers
            progress run_directory suite talk target text
    """,
    "root": "__init__ __main__ requirements testing api: membership",
}
