"""A grid of experiments, cut into batched jobs, here or on a Ray cluster.

    grid       GRID.toml into jobs: as few as can share a stack each
    folder     the sweep folder: its jobs, its writer, and one table across the grid
    worker     one job, wherever it runs
    processes  jobs side by side on this machine
    cluster    jobs on Ray, on machines that compute alike
    runner     all jobs of a sweep to their end

The sweep folder:

    sweep.toml      the resolved experiment, with the whole [grid]
    manifest.json   versions, cores, data, and every job: {"name", "setting", "grid", "seeds", "state":
                    "waiting|done|failed|split", "attempts", "where", "seconds", "error"}
    jobs/NAME/      the run folder of each job; without checkpoints if it was computed elsewhere
    table.csv|json|md   one row for each method and setting
    .lock           held by the process that runs the sweep
"""
