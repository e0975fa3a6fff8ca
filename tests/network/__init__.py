"""Machines on a real network, with faults drawn from a seed.

conditions    the faults of one direction
wire          the effect of the faults on frames; pure
ethernet      a switch in user space between network namespaces
profiles      the faults of each campaign, by name
site, worker  the machines; the program that each of them runs
campaign      the faults, the load, and the checks
"""
