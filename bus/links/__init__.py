"""How a process reaches the others: its links, and the thread that serves them.

unsent, frame_readers           the frames for a full link; frames out of their pieces
link_poller, link_pool          the wait at all links; the links
link_policy, join_state         the rules about links and roles; the outcome of the join
link_setup                      links, by dialling and by accepting
send_batch                      the commands or notifications that a task sends together
batch_room                      the bound of messages to one destination, with batches
audience_account                the notifications queued for all remote subscribers
relay_account, relay_outbox     the messages of tasks for other processes
inbound_delivery                the messages of other processes for tasks
acknowledgement_tracker         the messages that tasks took
shared_bodies, lent_bodies      long messages in shared memory: this process's, others'
lease_account                   the long messages for one recipient, and its leases
link_memory                     both directions, as the rounds use them
rounds, shutdown                the work of the comm thread between two sleeps; its end
fast_path_driver                the fast path, on which a task thread uses a link itself
peer_log, monitor_leases        log lines about peers; listeners of the frame monitor
comm_thread                     the thread that serves all links
process_network                 how processes find one another:
run_directory, socket_network   on one machine
socket_listeners                the sockets for links
announcement_group, announcer   datagrams between machines that do not know each other;
machine_discovery, peer_trust   links with other machines; those that may have one
gateway_requests, _address      links through the masters of two machines:
gateway_client, gateway_server  the process that asks, and the master that serves it
memory                          inside one process, for tests
"""
