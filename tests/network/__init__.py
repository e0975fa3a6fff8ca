"""Machines in network namespaces, and network faults drawn from a seed.

conditions    the faults of one direction
wire          the effect of these faults on frames; pure
ethernet      a switch in user space between network namespaces
profiles      the faults of a campaign over time, by name
site, worker  the machines, and the program that each machine runs
campaign      the load, the profiles, and the checks
"""
