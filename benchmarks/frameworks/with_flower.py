"""Flower's simulation engine: the server sends all clients their own models; six that meet get their mean.

https://flower.ai/docs/framework/
"""

from __future__ import annotations

import os

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from benchmarks.frameworks.turns import Turns, asked, kept, loss_of
from benchmarks.simulator.workloads import learn, mean_state, network

work, clients = asked()
client_app, server_app = ClientApp(), ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    model, x, y = kept(work, clients)
    me = int(context.node_config["partition-id"])
    model.load_state_dict(message.content["model"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=work.lr)
    for _ in range(work.local_steps):
        learn(work, model, optimizer, x[me], y[me])
    content = {
        "model": ArrayRecord(model.state_dict()),
        "facts": MetricRecord({"steps": work.local_steps}),
    }
    return Message(RecordDict(content), reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    first = network(work).state_dict()
    models = dict.fromkeys(grid.get_node_ids(), first)
    probe, x, y = kept(work, clients)

    def loss() -> float:
        probe.load_state_dict(mean_state(list(models.values())))
        return loss_of(probe, x, y)

    turns = Turns(loss)
    while True:
        replies = list(
            grid.send_and_receive(
                Message(RecordDict({"model": ArrayRecord(state)}), dst_node_id=node, message_type="train")
                for node, state in models.items()
            )
        )
        assert len(replies) == clients
        assert not any(reply.has_error() for reply in replies), replies[0].error
        for reply in replies:
            models[reply.metadata.src_node_id] = reply.content["model"].to_torch_state_dict()
        company = [list(models)[i] for i in torch.randperm(clients)[: work.neighbours + 1]]
        mean = mean_state([models[node] for node in company])
        models.update(dict.fromkeys(company, mean))
        turns.done(elsewhere=sum(int(reply.content["facts"]["steps"]) for reply in replies))


run_simulation(
    server_app,
    client_app,
    num_supernodes=clients,
    backend_config={
        "client_resources": {"num_cpus": 1, "num_gpus": 0},
        "init_args": {"num_cpus": os.cpu_count()},
    },
)
