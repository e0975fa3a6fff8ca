"""Whether some keep their rate while another one misbehaves: real processes, measured.

``python -m tests.rates``: `contest` has a pair measured with a third process beside it
that behaves, and with one that does not; `party` is what each of the three does.
Nothing of this is judged in pytest: a rate is a matter of the machine, too.
"""
