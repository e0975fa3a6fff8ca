"""The main job: take stock of a folder of files, on channels, and prove it.

A lister hands out files, workers read them and send content and digest onwards, a
collector keeps the totals, a console tells the progress. Everything is recorded, and
the result is compared with a plain serial run over the same list.

General layout, each on those before it:

files        what there is to read
stock        what was found: totals, largest files, duplicates; and the serial run
messages     what the tasks say to one another
agenda       which file is still to be done, and who has it
roles        lister, worker and collector, over message queues
plant        faults put into one channel on purpose
run          who starts the tasks, what is recorded
judge        the record held to its promises
"""
