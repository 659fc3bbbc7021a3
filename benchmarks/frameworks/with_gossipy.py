"""gossipy: in every round each node sends its model to a random other one, which takes the mean and learns.

https://github.com/makgyver/gossipy
"""

from __future__ import annotations

from benchmarks.frameworks.absent import without
from benchmarks.frameworks.turns import Turns, asked, epoch, loss_of

without("torchvision")

import torch  # noqa: E402
from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork  # noqa: E402
from gossipy.data import DataDispatcher  # noqa: E402
from gossipy.data.handler import ClassificationDataHandler  # noqa: E402
from gossipy.model import TorchModel  # noqa: E402
from gossipy.model.handler import TorchModelHandler  # noqa: E402
from gossipy.node import GossipNode  # noqa: E402
from gossipy.simul import GossipSimulator, SimulationEventReceiver  # noqa: E402

from benchmarks.simulator.workloads import network  # noqa: E402

work, clients = asked()
x, y = epoch(work, clients)
ROUND = 100
"""Ticks of the simulator's clock, in which every node wakes once."""


class Net(TorchModel):
    def __init__(self) -> None:
        super().__init__()
        self.net = network(work)
        for name, buffer in self.net.named_buffers():  # it can only take the mean of floats
            self.net.get_submodule(name.rpartition(".")[0]).register_buffer(
                name.rpartition(".")[2], buffer.float()
            )

    def init_weights(self) -> None:
        """As they are: all nodes begin alike."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.net(inputs)


class Rounds(SimulationEventReceiver):
    def update_timestep(self, t: int) -> None:
        if (t + 1) % ROUND == 0:
            turns.done()

    def update_message(self, failed: bool, msg: object = None) -> None:
        """Of no interest."""

    def update_evaluation(self, round: int, on_user: bool, evaluation: object) -> None:  # noqa: A002
        """Of no interest."""

    def update_end(self) -> None:
        """Never."""


class Data(DataDispatcher):
    """Every node has the samples of its number, and none to be tested on."""

    def __getitem__(self, i: int) -> tuple[tuple[torch.Tensor, torch.Tensor], None]:
        return (x[i], y[i]), None

    def has_test(self) -> bool:
        return False


data = Data(ClassificationDataHandler(x[0], y[0]), n=clients, eval_on_user=False, auto_assign=False)
nodes = GossipNode.generate(
    data,
    StaticP2PNetwork(clients),
    TorchModelHandler(
        Net(),
        torch.optim.SGD,
        {"lr": work.lr},
        torch.nn.CrossEntropyLoss(),
        local_epochs=1,
        batch_size=work.batch,
        create_model_mode=CreateModelMode.MERGE_UPDATE,
    ),
    ROUND,
    True,
)
simulator = GossipSimulator(nodes, data, ROUND, AntiEntropyProtocol.PUSH, sampling_eval=0.0)
turns = Turns(lambda: loss_of(nodes[0].model_handler.model.net, x, y))
simulator.add_receiver(Rounds())
simulator.init_nodes()
simulator.start(n_rounds=10**6)
