"""Operations recorded as they happen, and checked against the specification.

format, header, wording         the bytes, and their texts
segment, supply, meta,
payload_file, payloads,
mapped_file, retention,
incarnation                     the files of one process, while it writes them
recorder, bus_recorder          the functions that write a record
writer                          the journal of one process
stored_segment, stored_meta,
stored_payloads, reader         the files, as found on disk
replay                          when recorded messages are sent again
rules, violation                the promises, in terms that both checkers share
flow, bus_traffic, traffic,
checker                         the small checker
results                         the output of either checker

Nothing is imported here, so that a program that records loads only `writer`.
"""
