"""The tasks of one process, and the decisions about them.

routing_table          names of tasks, and where messages for each are posted
specification_trie     the specifications that match a name
interests              subscriptions and watches
parked_list            messages whose addressee has no route yet
trace                  one message, as a journal records it
inbound_run            messages that arrived together from one task
actions                the decisions, to be carried out by a driver
remote_tasks           the public tasks of other processes, as watches report them
remote                 the interfaces of the process manager to what lies above it
process_manager        the decisions
"""
