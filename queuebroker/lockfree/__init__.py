"""The kind of end that takes no lock while no peer waits; it relies on the GIL.

sleepers                sleeping receivers that can be woken without the lock
lock_free_buffer        one direction of a connection
lock_free_connection    a connection of two such buffers
fast_queue              the end
"""
