"""A method of one's own: average with the neighbours, each by its loss on the own samples."""

from dataclasses import dataclass

import torch

from coterie import Algorithm, Experiment, run
from coterie.core.ingredients.messages import blend


@dataclass(frozen=True)
class LowLoss(Algorithm):
    """Neighbours whose models have a low loss on the client's own samples count more."""

    def mix(self, task, state, inbox, probe, ctx):
        def loss(theirs):
            return probe.mean(task.losses(theirs, probe.x, probe.y))

        losses = task.map_over_messages(loss, state, inbox.messages)  # [K], one for each neighbour
        losses = torch.where(inbox.heard, losses, torch.inf)
        weight = torch.exp((losses.min() - losses) / 0.3)  # 1 for the best one
        share = weight / (1 + weight.sum())  # the own model counts as one more
        mixed = blend(self.offer(task, state, probe, ctx), share, inbox.messages)
        return task.merge(state, mixed), {"distance": losses, "weight": weight}


if __name__ == "__main__":
    own = {"name": "own_method:LowLoss", "adoption": "mix"}
    experiment = Experiment.load("quickstart").replace(
        seeds=1,
        data__clients=12,
        train__iterations=300,
        methods={"Local": {}, "FedAvg": {}, "KD-PDFL": {}, "LowLoss": own},
    )
    result = run(experiment)
    print(result.table()[["personal_mean", "personal_hurt_vs_local", "graph_auc"]])
