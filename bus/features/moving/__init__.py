"""Moving tasks: a task is handed over to another process.

new_addresses  the tasks that go on at another machine
hand_over      hands over a task, and sends commands after it
"""
