"""Machines on a real network that fails in ways that are drawn from a seed.

conditions    the faults of a network
wire          what they do to the frames of one direction; pure
ethernet      a switch in user space, to which network namespaces are connected
"""
