"""FedLab: federated averaging in its standalone pipeline with a serial trainer.

https://fedlab.readthedocs.io/
"""

from __future__ import annotations

from benchmarks.frameworks.absent import without
from benchmarks.frameworks.turns import Turns, asked, epoch, loss_of

without("torchvision")

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.contrib.dataset.basic_dataset import FedDataset  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from benchmarks.simulator.workloads import network  # noqa: E402

work, clients = asked()
x, y = epoch(work, clients)


class Data(FedDataset):
    def get_dataloader(self, id: int, batch_size: int, mode: str = "train") -> DataLoader:  # noqa: A002
        return DataLoader(TensorDataset(x[id], y[id]), batch_size=batch_size, shuffle=True)


class Pipeline(StandalonePipeline):
    def evaluate(self) -> None:
        turns.done()


trainer = SGDSerialClientTrainer(network(work), clients)
trainer.setup_dataset(Data())
trainer.setup_optim(1, work.batch, work.lr)
handler = SyncServerHandler(network(work), 10**6, 1.0)
turns = Turns(lambda: loss_of(handler.model, x, y))
Pipeline(handler, trainer).main()
