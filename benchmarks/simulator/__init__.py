"""Speed of the simulator: the machine's limit, a plain loop over clients, and the engine, side by side.

workloads         W1 and W2, and the plain PyTorch loop over clients
engine_contender  the same work in the engine
machine           the machine, its limits and its memory
timing            client-steps per second of contenders in turn
subprocess_probe  start-up and memory, in a process of their own
engine_bench      `coterie bench engine`
exchange_bench    `coterie bench exchange`
scaling_bench     `coterie bench scaling`
methods_bench     `coterie bench methods`
mixed_bench       `coterie bench mixed`
tables            results as a table, in the terminal and as Markdown
pictures          throughput against the number of clients
"""
