"""Early stopping: end a run that no longer gets better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coterie.callbacks.callback import Callback, Evaluation, Score
from coterie.core.errors import ConfigError

if TYPE_CHECKING:
    from coterie.runs import Run

__all__ = ["EarlyStopping"]


@dataclass
class EarlyStopping(Callback):
    """Ends the run when no method and seed has got better for some evaluations in a row.

    The run is then complete, and says that it was stopped early; the closing phase, the last part of the
    iterations, is left out for every method alike.
    """

    patience: int = 5
    """Evaluations in a row without a gain."""
    score: Score = "validation"
    """The score that should get better, as a mean over the clients; on `personal` and `global` the test
    samples choose the end, which flatters the results."""
    least: float = 0.0
    """A gain that is not larger counts as none."""
    _best: dict[tuple[str, int], tuple[float, int]] = field(default_factory=dict, init=False, repr=False)
    """The best score of each row and seed, and how many evaluations ago it was."""

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ConfigError(f"EarlyStopping: patience must be at least 1, got {self.patience}")

    def on_begin(self, run: Run, earlier: Sequence[Evaluation]) -> None:
        self._best.clear()
        for evaluation in earlier:
            self._look(evaluation)

    def after_evaluation(self, evaluation: Evaluation) -> str | None:
        waited = self._look(evaluation)
        if waited < self.patience:
            return None
        return f"no {self.score} score has got better for {waited} evaluations"

    def _look(self, evaluation: Evaluation) -> int:
        """Compare with the best so far; the fewest evaluations that some world has been waiting for."""
        waited = []
        for world in evaluation.worlds:
            key, found = (world.name, world.seed), world.mean(self.score)
            if math.isnan(found) and not (self.score == "loss" or len(world.diverged) == len(world.honest)):
                raise ConfigError(
                    f"EarlyStopping: {world.name} has no {self.score} score; with data.validation = 0 choose "
                    "another score"
                )
            gain = -found if self.score == "loss" else found
            best, ago = self._best.get(key, (-math.inf, 0))
            self._best[key] = (gain, 0) if gain > best + self.least else (best, ago + 1)
            waited.append(self._best[key][1])
        return min(waited)
