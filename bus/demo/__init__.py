"""The main job: take stock of a folder of files, on a bus, and prove it.

A lister hands out files by command, workers read them and send content and digest
onwards, a collector keeps the totals and notifies of progress, a console hears that.
Content is recorded, and the result is compared with a plain serial run over the same
list.

General layout, each on those before it:

files        what there is to read
stock        what was found: totals, largest files, duplicates; and the serial run
messages     what the tasks say to one another
carrier      what they need of a queue, whatever carries it
agenda       which file is still to be done
lister       who hands them out
worker       who reads them
collector    where they come together
crew         who starts the workers; which of them leaves, which is killed
plant        faults put into one queue on purpose
threads      workers in threads of this process
recorded_queue   a queue between processes, on record at both ends
job          what a worker process is told first
worker_process   one worker in a process of its own
processes    all of these
outcome      what a run found, against a plain serial one
run          a whole run, whoever starts the workers
judge        the record held to its promises
"""
