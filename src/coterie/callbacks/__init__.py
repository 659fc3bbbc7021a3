"""Callbacks: what is told of a run as it goes, early stopping, and trackers of experiments.

callback        the contract, and what a callback is given
early_stopping  end a run that no longer gets better
watch           the engine's rows as what callbacks are given
trackers/       MLflow, TensorBoard, Weights & Biases: one file each
"""

from coterie.callbacks.callback import Callback, Evaluation, ExchangeRows, WorldScores
from coterie.callbacks.early_stopping import EarlyStopping
from coterie.callbacks.trackers import TRACKERS, tracker
from coterie.callbacks.watch import CallbackError, CallbackWatcher

__all__ = [
    "TRACKERS",
    "Callback",
    "CallbackError",
    "CallbackWatcher",
    "EarlyStopping",
    "Evaluation",
    "ExchangeRows",
    "WorldScores",
    "tracker",
]
