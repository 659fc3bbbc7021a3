"""Whom does KD-PDFL listen to, and does it find the groups that nobody told it of?"""

from coterie import Experiment, run

experiment = Experiment.load("quickstart").replace(
    seeds=1, methods=["Local", "KD-PDFL"], data__clients=12, train__iterations=300
)
result = run(experiment)
weights = result.graph(
    "KD-PDFL", seed=0
)  # [clients, clients]: row i is how much client i listens to each other one
group = result.per_client().query("method == 'KD-PDFL'")["group"].to_numpy()
same = group[:, None] == group[None, :]
print("mean weight of clients of the same group:", weights[same].mean().round(2))
print("mean weight of the others:               ", weights[~same].mean().round(2))
