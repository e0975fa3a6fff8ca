"""Processes of a real bus that are killed and stopped under load.

``python -m tests.kills --count 200 --seed 1``: `campaign` starts the processes
(`member`), has one struck after the other, and asks the `ledger` what became of each
message. A process of the bus is `worker`: it sends and receives (`load`), writes down
what it does (`notes`), and strikes itself where it was told to (`strike`).
"""
