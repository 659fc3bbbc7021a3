"""Which method for my data? Run the candidates, and ask of each client whether joining paid."""

from coterie import Experiment, run

candidates = ["Local", "FedAvg", "Ditto", "kNN-Per", "KD-PDFL"]
experiment = Experiment.load("hospitals").replace(methods=candidates, seeds=3, train__iterations=200)
result = run(experiment)
columns = ["personal_mean", "personal_worst10", "personal_hurt_vs_local", "bytes_sent"]
print(result.table()[columns].sort_values("personal_mean", ascending=False))
print(result.per_client().groupby(["method", "client"])["vs_local"].mean().unstack("client").round(3))
