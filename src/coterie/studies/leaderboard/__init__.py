"""The leaderboard: every method on every column under one protocol, tuned alike, on fresh seeds.

    columns      columns.toml into columns and sizes; which methods take part
    pieces       the jobs of a board: tuning of a column, then its figures, each a batched run
    board        all jobs to their end, here or on Ray; a column or method that cannot run costs itself only
    results      leaderboard.json: the cells of every column, tests, ranks, regret
    ranking      mean ranks, Friedman's test, the critical difference, cliques that it cannot tell apart
    report       tables for people, CSV, and the files of the folder

The folder of a board, by default `leaderboard`:

    manifest.json       what was asked, versions, data, and every job with its state (as a sweep's)
    jobs/NAME/          the run folder of each job: COLUMN-tuning, COLUMN-figures; COLUMN-timing of one column
    leaderboard.json    the whole board for programs; `results` documents it
    leaderboard.md|tex|csv, leaderboard-tests.csv, ranks.png|svg
"""
