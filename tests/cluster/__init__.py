"""The pipeline on a standalone Spark cluster of this machine, against a local run.

``python -m tests.cluster`` starts a Master and two Workers from the pip package, runs
`bus pipeline check` there and locally with the same relative paths, and compares the
verdicts. Executors run in separate directories, as on any cluster.
"""
