"""A grid of experiments, cut into batched jobs, here or on a Ray cluster.

    grid       GRID.toml into jobs: as few as can share a stack each
    work       one job, wherever it is carried out
    cluster    many jobs on Ray
    conduct    all jobs of a sweep to their end
    folder     the sweep folder, for one writer
    reading    what came of it: one table across the grid
    versions   whether two machines compute alike
    view       how all jobs are getting on

The sweep folder:

    sweep.toml      the resolved experiment, with the whole [grid]
    manifest.json   versions, cores, data, and every job: {"name", "setting", "grid", "seeds", "state":
                    "waiting|done|failed|split", "attempts", "where", "seconds", "error"}
    jobs/NAME/      the run folder of each job; without checkpoints if it was computed elsewhere
    table.csv|json|md   one row for each method and setting
    .lock           held by the process that conducts the sweep
"""
