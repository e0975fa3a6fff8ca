"""All other processes of a bus, and the decisions about them.

topology, requests                      the known processes, and routes of requests
handshake, link, master_dialler,
link_table                              links, from their first frame to their last
discovered_machines                     the dials that follow from discovery
keep_alive, idle_links, idle_relays     silent links; links and relays out of use
user_routing_table, pending_names,
name_registry                           the holders of public names
remote_presence                         public tasks of others, while one confirms them
relays                                  the relays of tasks of all peers
inbound, inbound_messages,
outbound_messages,
undelivered_messages                    messages, from and to frames, and back
own_searches, resolver                  searches for names
confirmations, matches,
remote_subscriptions                    subscriptions
control_frames                          a row per frame type; the checks of the senders
process_loss                            the end of other processes
task_announcer                          the tasks of this process, reported to others
remote_manager                          the decisions; the table of frame handlers
new_addresses                           the tasks that go on at another machine
fast_path                               one message, sent or received by a task's thread
frame_facts, frame_monitor              frames, as values for people
"""
