"""All other processes of a bus, and the decisions about them.

topology, requests                      the known processes, and routes of requests
handshake, link, master_dialler,
link_table                              links, from their first frame to their last
machine_dialler, name_conflicts         dials to other machines; machines of one name
keep_alive, idle_links, idle_relays     silent links; links and relays out of use
user_routing_table, pending_names,
name_registry                           the holders of public names
relays                                  the relays of tasks of all peers
inbound, inbound_messages,
outbound_messages,
undelivered_messages                    messages, from and to frames, and back
own_searches, resolver                  searches for names
any_machine                             names whose machine is ``*``
control_frames                          frames for several parts; checks of the senders
process_loss                            the end of other processes
task_announcer                          the tasks of this process, reported to others
remote_manager                          the decisions; the table of frame handlers
new_addresses                           the tasks that go on at another machine
fast_path                               one message, sent or received by a task's thread
remote_presence                         public tasks of others, while one confirms them
confirmations, matches,
remote_subscriptions                    subscriptions
frame_facts, frame_monitor              frames, as values for people
"""
