"""The search for a name: at the master, and among machines.

requests      the open requests, each with its asker and its route
own_searches  the searches of the own tasks
resolver      the search for names, for the own tasks and for other processes
"""
