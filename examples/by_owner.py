"""Four real hospitals, two of which have a larger model; clients are called by the names of their owners."""

from coterie import Experiment, run

small = {"name": "mlp", "hidden": [8], "norm": "batch"}
large = {**small, "hidden": [64]}
experiment = Experiment.load("hospitals").replace(
    name="by-owner",
    model=[{**large, "owners": ["Cleveland", "Hungary"]}, small],  # all others get the small one
    methods=["Local", "KD-PDFL"],
    seeds=1,
    train__iterations=60,
)
found = run(experiment, plots=False)
clients = found.per_client().query("method == 'KD-PDFL'")
print(clients[["client", "owner", "architecture", "personal", "vs_local"]].round(3).to_string(index=False))
print(found.model("KD-PDFL", seed=0, client="Hungary").card.owner)  # or coterie export --client Hungary
