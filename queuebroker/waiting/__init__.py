"""How a caller waits, with or without a socket.

parking            wait lists, parkers, and the one loop by which callers wait
readiness          a descriptor that is readable while a receive need not wait
"""
