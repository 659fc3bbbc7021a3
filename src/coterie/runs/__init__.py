"""The run folder: the only contract towards tables, plots and dashboards.

    experiment.toml         the resolved experiment, complete
    environment.json        format of this folder, versions, machine, commit, command line, date
    status.json             {"state": "running|stopped|interrupted|failed|done", "t", "iterations",
                            "seconds", ...}
    worlds.json             index = world: {"name", "label", "seed", "setting", "federation"}
    clients.json            index = federation: {"seed", "classes", "group" [M], "train" [M], "test" [M],
                            "labels" [M][L], "attackers" [client, ...], "owned", "architecture" [M]
                            (absent: all clients have one model), "owner" [M] (absent: nobody has a name)}
                            of very many clients: {"clients" (how many), "sample" [client, ...], "groups"
                            [[group, clients], ...] of all, in their order}, and all else of that sample
    task.json               what is learned: {"name", "has_classes", "metrics": [{"name", "title", "unit",
                            "higher_is_better", "scale", "digits"}, ...]}; absent: classification
    metrics.jsonl           one row per world and evaluation: {"world", "t", "personal" [M], "global" [M],
                            "validation" [M], "loss" [M], "bytes", "gradients", "models_carried",
                            "diverged" [client, ...], at the end "correct" or "sample_losses"}, and of
                            every metric but the first "personal.NAME" [M], "global.NAME", "validation.NAME";
                            of a sample: {"all": {column: {"clients", "mean", "std", "worst10",
                            "quantiles" [7]}}, "all_diverged"} over all honest clients beside
    exchanges.jsonl         one row per client that mixed or adopted: {"world", "t", "kind": "mix|adopt",
                            "client", "neighbours" [K], "heard" [K] (absent: all were)} and what the
                            method reports, such as "distance" [K], "weight" [K], "confidence"
    checkpoint-*.safetensors  where the run goes on, written by the engine
    models-*.safetensors    the final models of all worlds (`coterie.engine.final_models`), unless large
    summary.json            the numbers of the result table
    plots/*.png             the pictures
    .lock                   held by the process that writes here; without it, one that is "running" was killed

`personal`, `global` and `validation` hold the task's first metric: accuracies, which are shares of one,
unless `task.json` says otherwise. `labels` and `classes` are empty where targets are not one class each.
`bytes` and `gradients` count what all clients of a world sent and took so far; `models_carried` is what one
client remembers beside its model and optimiser, in models; `diverged` are the clients without a finite model
at that evaluation; `test` counts personal test samples, and `correct` tells which of these their clients got
right, client after client: a bit each, eight a byte, the highest first, in base64; where there is no right
and wrong, `sample_losses` has the loss of each of them instead, a little-endian float32 each, in base64;
`owned`: the data have owners, who are the clients of every seed; `owner`: the names of those whose samples
clients have, at most 60 characters each (`coterie.core.support.owner_names`), one name for several clients
where an owner's samples are dealt to them.
Of a world with more than 2,048 clients (`coterie.federation.recording`) a sample of 1,000 is recorded one by
one, drawn for each seed: entries `[M]`, rows of exchanges.jsonl and final models are of those; `format` is 3.
`quantiles` are at 0, 5, 25, 50, 75, 95 and 100 % (`coterie.engine.population`).
JSON never holds NaN: what is not finite is null.
The two .jsonl files are only ever appended to; what a killed run wrote after its last checkpoint is
cut off (`RunFolder.truncate_to`) and written again. All other files are replaced whole, never changed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.runs.run import Run
    from coterie.runs.writer import RunFolder, free_name

__all__ = ["Run", "RunFolder", "free_name"]

_HOMES = {"Run": "run", "RunFolder": "writer", "free_name": "writer"}


def __getattr__(name: str) -> Any:  # loaded when it is first used: who only prints a table needs no numpy
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
