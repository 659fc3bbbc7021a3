"""Half of the clients have a small perceptron, half a deep one: does either learn from the other?"""

from coterie import Experiment, run

small, deep = {"name": "mlp", "hidden": [14], "share": 0.5}, {"name": "mlp", "hidden": [64, 64], "share": 0.5}
experiment = Experiment.load("quickstart").replace(
    name="two-models",
    model=[small, deep],
    methods=["Local", "FedAvg", "KD-PDFL"],  # FedAvg averages within each architecture alone
    seeds=1,
    data__clients=8,
    train__iterations=150,
)
clients = run(experiment).per_client()
print(clients.groupby(["architecture", "method"])[["personal", "vs_local"]].mean().round(3))
