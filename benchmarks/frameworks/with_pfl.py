"""pfl: federated averaging in its simulated backend, every user in every cohort.

https://apple.github.io/pfl-research/
"""

from __future__ import annotations

from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.frameworks.turns import Turns, asked, epoch, loss_of
from benchmarks.simulator.workloads import network

work, clients = asked()
x, y = epoch(work, clients)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = network(work)

    def loss(self, inputs: Tensor, labels: Tensor, eval: bool = False) -> Tensor:  # noqa: A002 - its name there
        self.net.train(not eval)
        return nn.functional.cross_entropy(self.net(inputs), labels)

    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Any]:
        return {}


class Rounds(TrainingProcessCallback):
    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        turns.done(elsewhere=-1)  # the server's own step is none of a client's
        return False, Metrics()


net = Net()
turns = Turns(lambda: loss_of(net.net, x, y))
users = list(range(clients))
data = FederatedDataset(
    lambda user: Dataset((x[user], y[user]), user_id=str(user)), get_user_sampler("minimize_reuse", users)
)
model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
FederatedAveraging().run(
    NNAlgorithmParams(10**6, evaluation_frequency=10**6, train_cohort_size=clients, val_cohort_size=0),
    SimulatedBackend(data, data),
    model,
    NNTrainHyperParams(work.batch, local_num_epochs=1, local_learning_rate=work.lr),
    NNEvalHyperParams(work.batch),
    [Rounds()],
)
