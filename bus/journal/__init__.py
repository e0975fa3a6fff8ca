"""What happened, recorded as it happens, and checked against the specification.

General layout, in order of dependency: `format` and `header` are the bytes, `wording`
is how they are said, `writer` makes them, `reader` takes them apart, `rules` are the
promises in words that both checkers share, `results` is what either of them leaves,
`checker` is the small one of the two. Nothing is imported here, so that recording
costs a program nothing but `writer`.
"""
