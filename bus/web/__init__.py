"""The page about a bus: ``bus web``; see `bus.web.verb`.

picture    the state that the page shows, its changes, and the last ten minutes
losses     each lost or late message as a row: place, rule, remedy
live       asks the processes of a live bus
recorded   the same about a recording
guard      which requests are answered
server     the page and its data, over HTTP
verb       ``bus web``
page/      the page itself: HTML, CSS and JavaScript, without a build step
"""
