"""Whether a pair keeps its rate while a third process misbehaves, in real processes.

``python -m tests.rates``: `contest` measures a pair beside a third process that
behaves, and beside one that does not; `party` implements the three. pytest judges no
result, since a rate also depends on the machine.
"""
