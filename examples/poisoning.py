"""A fifth of the clients send their models with every sign turned round: whom does that harm?"""

from coterie import Experiment, run

experiment = Experiment.load("quickstart").replace(
    name="poisoning",
    methods=["Local", "FedAvg", "KD-PDFL"],
    seeds=1,
    data__clients=10,
    data__shift=[],  # one task for all
    train__iterations=100,
    grid={"attack": [{"name": "none"}, {"name": "sign_flip", "share": 0.2, "scale": 4.0}]},
)
print(run(experiment).table()["personal_mean"].round(3))  # means over the honest clients
