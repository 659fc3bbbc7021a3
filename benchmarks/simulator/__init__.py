"""Speed, measured: the machine's limit, a plain loop, ours, side by side.

work        what is timed, W1 and W2, and the plain PyTorch loop over clients
ours        the same work in the engine
machine     the machine and what it could do at best
timing      client-steps per second, contenders in turn
alone       start-up and memory, in a process of their own
versus      `coterie bench engine`
exchange    `coterie bench exchange`
scaling     `coterie bench scaling`
sheet       results as a table, as Markdown and as a file
pictures    throughput against the number of clients
"""
