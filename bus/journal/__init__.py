"""Operations recorded as they happen, and checked against the specification.

General layout, in order of dependency: `format` and `header` define the bytes,
`wording` their texts; `writer` writes them, `reader` reads them; `rules` are the
promises in terms that both checkers share, `results` the output of either, `checker`
the small one of the two. Nothing is imported here, so that a program that records loads
only `writer`.
"""
