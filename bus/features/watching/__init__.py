"""Watching: reports on a live bus, and the frames on its links.

frame_monitor  the frames on the links, as values for people
inspection     the state of a process, as others ask for it
inspector      answers the questions of other processes
route_verb     ``bus route``
monitor_verb   ``bus monitor``
verb           ``bus tree``, ``bus list`` and ``bus top``
"""
