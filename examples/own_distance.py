r"""A distance of one's own for the paper's reading of KD-PDFL: $\frac12 \|p - q\|_1$."""

from torch import Tensor

from coterie import Experiment, run
from coterie.core.tasks.outputs import of_probabilities


@of_probabilities
def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """Total variation of two models' outputs `[..., n, L]`, for each sample `[..., n]`: between 0 and 1."""
    return (p - q).abs().sum(dim=-1) / 2


if __name__ == "__main__":
    paper = {"name": "KD-PDFL", "reading": "paper"}
    experiment = Experiment.load("quickstart").replace(
        seeds=1,
        data__clients=12,
        train__iterations=300,
        methods={"Local": {}, "paper": paper, "own": {**paper, "distance": "own_distance:total_variation"}},
    )
    print(run(experiment).table()[["personal_mean", "graph_auc"]])
