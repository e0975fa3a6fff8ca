"""A hierarchical software bus on `queuebroker`, and the tools that read its traffic.

Nothing is imported here: `bus.journal` must load with the standard library, attrs and
`queuebroker` alone.
"""
