"""What goes over the channels of `queuebroker`, recorded, judged and shown.

General layout: `journal` records and holds the record to its promises, `pipeline` does
so with Spark and draws a report, `demo` is a program to be recorded, `cli` the command.
The software bus itself comes next; `core` is what it decides, so far the streams
between two processes.

Nothing is imported here: `bus.journal` must load with the standard library, attrs and
`queuebroker` alone.
"""
