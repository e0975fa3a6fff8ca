"""Processes of a real bus that are killed and stopped under load.

``python -m tests.kills --count 200 --seed 1``: `campaign` starts the processes
(`member`), has them killed or stopped one after another, and lets the `ledger` judge
the outcome of each message. A process of the bus is a `worker`: it sends and receives
(`load`), keeps notes of that (`notes`), and kills or stops itself on order (`strike`).
``python -m tests.kills --shared-memory`` strikes processes that share memory
(`memory_campaign`, `memory_worker`), before a random bytecode (`bytecode_strike`).
``python -m tests.kills.soak`` spares one client for an hour and watches its memory.
"""
