"""The pipeline on a standalone Spark cluster of this machine, against a local run.

``python -m tests.cluster`` starts a Master and two Workers from the pip package, runs
`bus pipeline check` there and locally with the same relative paths, and compares the
verdicts. Executors stand in directories of their own, as on any cluster.
"""
