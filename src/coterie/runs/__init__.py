"""The run folder: the only contract towards tables, plots and dashboards.

    experiment.toml         the resolved experiment, complete
    environment.json        format of this folder, versions, machine, commit, command line, date
    status.json             {"state": "running|stopped|failed|done", "t", "iterations", "seconds", ...}
    worlds.json             index = world: {"name", "label", "seed", "setting", "federation"}
    clients.json            index = federation: {"seed", "classes", "group" [M], "train" [M], "test" [M],
                            "labels" [M][L], "attackers" [client, ...], "owned", "architecture" [M]
                            (absent: all clients have one model)}
    metrics.jsonl           one row per world and evaluation: {"world", "t", "personal" [M], "global" [M],
                            "validation" [M], "loss" [M], "bytes", "gradients", "models_carried",
                            "diverged" [client, ...], "correct" (only at the end)}
    exchanges.jsonl         one row per client that mixed or adopted: {"world", "t", "kind": "mix|adopt",
                            "client", "neighbours" [K], "heard" [K] (absent: all were)} and what the
                            method reports, such as "distance" [K], "weight" [K], "confidence"
    checkpoint-*.safetensors  where the run goes on, written by the engine
    summary.json            the numbers of the result table
    plots/*.png             the pictures
    .lock                   held by the process that writes here; without it, one that is "running" was killed

Accuracies are shares of one; `bytes` and `gradients` count what all clients of a world sent and took so far;
`models_carried` is what one client remembers beside its model and optimiser, in models; `diverged` are the
clients without a finite model at that evaluation; `test` counts personal test samples, and `correct`
tells which of these their clients got right, client after client: a bit each, eight a byte, the highest
first, in base64; `owned`: the data have owners, who are the clients of every seed.
JSON never holds NaN: what is not finite is null.
The two .jsonl files are only ever appended to; what a killed run wrote after its last checkpoint is
cut off (`RunFolder.truncate_to`) and written again. All other files are replaced whole, never changed.
"""

from __future__ import annotations

from coterie.runs.run import Run
from coterie.runs.writer import RunFolder, free_name

__all__ = ["Run", "RunFolder", "free_name"]
