"""TensorBoard: event files in the run folder, one line for each method and seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from coterie.callbacks.callback import Callback, Evaluation, Score
from coterie.runs import Run

__all__ = ["TensorBoard"]


class TensorBoard(Callback):
    """Writes mean scores and bytes of each method and seed; look with `tensorboard --logdir runs`."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """`folder`: where event files go, by default `tensorboard` in the run folder."""
        from torch.utils.tensorboard import SummaryWriter

        self.folder, self._writer = folder, SummaryWriter
        self._writers: dict[str, Any] = {}

    def on_begin(self, run: Run, earlier: Sequence[Evaluation]) -> None:
        folder = Path(self.folder) if self.folder is not None else run.path / "tensorboard"
        after = earlier[-1].t + 1 if earlier else 0
        for world in run.worlds:
            name = f"{world['name']}/seed {world['seed']}"
            self._writers[name] = self._writer(str(folder / name), purge_step=after)

    def after_evaluation(self, evaluation: Evaluation) -> None:
        for world in evaluation.worlds:
            writer = self._writers[f"{world.name}/seed {world.seed}"]
            for score in get_args(Score):
                if (mean := world.mean(score)) == mean:
                    writer.add_scalar(score, mean, evaluation.t)
            writer.add_scalar("bytes", world.bytes, evaluation.t)

    def on_end(self, run: Run) -> None:
        for writer in self._writers.values():
            writer.close()
