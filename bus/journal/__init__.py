"""What happened, recorded as it happens, and checked against the specification.

General layout, in order of dependency: `format` and `header` are the bytes, `writer`
makes them, `reader` takes them apart, `rules` are the promises in words that both
checkers share, `checker` is the small one of the two. Nothing is imported here, so
that recording costs a program nothing but `writer`.
"""
