"""fluke: FedAvg by its own server and clients.

https://makgyver.github.io/fluke/
"""

from __future__ import annotations

from benchmarks.frameworks.absent import without
from benchmarks.frameworks.turns import Turns, asked, epoch, loss_of

without("torchvision")

import torch  # noqa: E402
from fluke import FlukeENV  # noqa: E402
from fluke.algorithms.fedavg import FedAVG  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402
from fluke.utils import ServerObserver  # noqa: E402

from benchmarks.simulator.workloads import network  # noqa: E402

work, clients = asked()
x, y = epoch(work, clients)


class Rounds(ServerObserver):
    def end_round(self, round: int) -> None:  # noqa: A002 - its name in the framework
        turns.done()


def client(i: int) -> Client:
    data = FastDataLoader(x[i], y[i], num_labels=work.classes, batch_size=work.batch, shuffle=True)
    steady = {"name": "StepLR", "step_size": 1, "gamma": 1}
    optimizer = OptimizerConfigurator({"name": torch.optim.SGD, "lr": work.lr}, steady)
    return Client(i, data, None, optimizer, torch.nn.CrossEntropyLoss(), local_epochs=1)


FlukeENV().open_cache("peers")
everybody = [client(i) for i in range(clients)]
server = Server(network(work), None, everybody)
turns = Turns(lambda: loss_of(server.model, x, y))
algorithm = FedAVG(clients, None, None, clients=everybody, server=server)
algorithm.attach(Rounds())
algorithm.run(10**6, 1.0)
