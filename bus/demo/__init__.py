"""The main job: take stock of a folder of files, on a bus, and prove it.

A lister hands out files by command, workers read them and send content and digest
onwards, a collector keeps the totals and notifies of progress, a console hears that.
Content is recorded, and the result is compared with a plain serial run over the same
list.

General layout, each on those before it:

files        what there is to read
stock        what was found: totals, largest files, duplicates; and the serial run
messages     what the tasks say to one another
agenda       which file is still to be done
lister       who hands them out
worker       who reads them
collector    where they come together
plant        faults put into one queue on purpose
run          who starts the tasks, what is recorded
judge        the record held to its promises
"""
