"""Journals read by Spark: tables, verdicts, and one report to look at.

General layout, in order of dependency. `folder`: where results lie; `session`: Spark
itself. Reading: `schemas`, `batches`, `share`, `source` (journals as a data source),
`bronze` (-> events). Judging: `silver` (-> messages, sessions, flows), `rules` (the
promises as DataFrame expressions), `verdicts`, `results` (what is left for people and
programs). Showing: `gold` (-> the few numbers to draw), `wording`, `svg`, `plots`,
`scene`, `report`, all but the first without Spark. `run`: all of it. Nothing is
imported here, so that a Spark worker loads only what it reads with.
"""
