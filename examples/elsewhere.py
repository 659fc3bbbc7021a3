"""Everybody began elsewhere: deep models that cannot be averaged learn from each other all the same."""

import pandas as pd

from coterie import Experiment, run

experiment = Experiment(
    name="elsewhere",
    seeds=1,
    model={"name": "mlp", "hidden": [32, 32, 32]},
    methods={
        "Local": {},
        "averaging": {"name": "KD-PDFL"},
        "distilling": {"name": "KD-PDFL", "own_shape": "distil", "lessons": 150, "lesson_rate": 2.0},
    },
    data={"clients": 10, "sizes": (15, 60), "partition": {"name": "dirichlet", "alpha": 2.0}},
    train={"iterations": 300, "lr": 0.1, "init": "independent"},
    exchange={"every": 50, "stars": 1.0},
)
together = run(experiment, plots=False)
steps = int(together.track("distilling", seed=0).gradients[-1] / 10)  # of a client, lessons included
alone = run(experiment.replace(name="alone", methods=["Local"], train__iterations=steps), plots=False)
tables = {"300 iterations": together.table(), f"{steps} iterations": alone.table()}
table = pd.concat(tables)[["personal_mean", "personal_worst10"]].round(3)
print(table)
