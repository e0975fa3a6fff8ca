"""Journals read by Spark: tables, verdicts, and one report to look at.

General layout, in order of dependency: `errors`, `folder` (where the results lie),
`session` (Spark itself), `schemas` and `source` (journals as a data source), `bronze`
(journals -> events), `silver` (events -> messages, sessions, flows), `rules` (the
promises as DataFrame expressions), `gold` (verdicts, traffic, latency), `plots` and
`report` (gold -> one HTML file, without Spark), `run` (all of it). Nothing is imported
here, so that a Spark worker loads only what it reads with.
"""
