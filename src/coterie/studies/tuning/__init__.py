"""Equal chances: the same number of settings tried for every method, judged on validation data alone.

candidates  which settings are tried
trials      how well each of them does
report      the choice, for people and for programs
"""

from __future__ import annotations

from coterie.studies.tuning.trials import Trial, Tuning, tune

__all__ = ["Trial", "Tuning", "tune"]
