"""The tasks of the own process, and the decisions about them.

routing_table    names of tasks, and where messages for each are posted
runs             successive messages of one task, on their way to another
actions          the decisions, to be carried out by a driver
parked_list      messages whose addressee has no route yet
remote           the interfaces of the process manager to the layers above it
process_manager  the decisions
"""
