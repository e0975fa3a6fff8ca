"""Journals read by Spark: tables, verdicts, and one report to look at.

General layout, in order of dependency. `folder`: the folder of results; `session`:
Spark itself. Reading: `schemas`, `batches`, `share`, `source` (journals as a data
source), `event_file`, `plan`, `bronze` (new segments -> events). Judging: `silver` (->
messages, sessions, flows), `rules` (the promises as DataFrame expressions), `verdicts`,
`results` (the results for people and programs). Showing: `gold` (-> the few numbers to
draw), `wording`, `svg`, `plots`, `scene`, `report`, all but the first without Spark.
`run`: a whole run; `opened_run`: its tables for other queries. Streams: `follower` and
`messages` (growing journals, read by `source`), `spool`, `sink` and `gateway` (rows
published on a bus). Nothing else is imported here, so that a Spark worker loads only
the modules that it reads with.
"""

from bus.pipeline.opened_run import open_run

__all__ = ["open_run"]
