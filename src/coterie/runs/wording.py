"""Values of a metric as people read them: the one place that decides how they are written.

Terminal, Markdown, LaTeX, pictures and sentences take it from here; `static/metric.js` is the same for the
page, and a test holds the two together. Files and CSV have the values as they are measured.
"""

from __future__ import annotations

import math

from coterie.core.tasks.metric import ACCURACY, Metric, TaskFacts
from coterie.runs.tables import ABSENT

__all__ = [
    "amount",
    "axis",
    "behind",
    "compact",
    "difference",
    "gain_axis",
    "gain_of",
    "heading",
    "in_words",
    "samples",
    "spread",
    "tested",
    "text",
    "title",
    "with_unit",
]


def text(metric: Metric, value: float | None) -> str:
    """Write a value without its unit: `83.3`, `0.41`."""
    return ABSENT if value is None or not math.isfinite(value) else metric.show(value)


def with_unit(metric: Metric, value: float | None) -> str:
    """Write a value with its unit: `83.3 %`, `0.41`, `0.41 kg`."""
    said = text(metric, value)
    return said if said == ABSENT else f"{said} {metric.unit}".strip()


def compact(metric: Metric, value: float | None) -> str:
    """Write a value for a line where many things stand: `83.3%`, `0.41 kg`."""
    return with_unit(metric, value).replace(" %", "%")


def in_words(metric: Metric, value: float | None) -> str:
    """Write a value in a sentence: `83.3 %` for accuracy, `RMSE 0.41 kg` for any other metric."""
    return with_unit(metric, value) if metric == ACCURACY else f"{metric.title} {with_unit(metric, value)}"


def spread(metric: Metric, mean: float | None, std: float | None) -> str:
    """Write a mean and its standard deviation: `83.3 ± 1.2`."""
    return text(metric, mean) + (f" ± {text(metric, std)}" if mean is not None and std is not None else "")


def amount(metric: Metric, gain: float) -> str:
    """Write how large a difference is: `4.2 points`, `0.03`, `0.03 kg`."""
    return f"{text(metric, abs(gain))} {_unit(metric)}".strip()


def difference(metric: Metric, gain: float) -> str:
    """Write a difference, positive where it is for the better: `+4.2 points`, `-0.03`."""
    return f"{'-' if gain < 0 else '+'}{amount(metric, gain)}"


def heading(metric: Metric, kind: str) -> str:
    """Title a column of a table: `personal %` for accuracy, `personal RMSE kg` for any other metric."""
    return f"{kind} {metric.unit if metric == ACCURACY else metric.heading}"


def title(metric: Metric, kind: str = "") -> str:
    """Title a picture: `Personal accuracy`, `Global RMSE`; without a kind `Accuracy`, `RMSE`."""
    words = f"{kind} {metric.title}".strip()
    return words[:1].upper() + words[1:]


def axis(metric: Metric, before: str = "", after: str = "") -> str:
    """Label an axis: `personal accuracy (%)`, `RMSE, mean over clients (kg; lower is better)`."""
    said = metric.unit if metric == ACCURACY else "; ".join(filter(None, [metric.unit, metric.direction]))
    return f"{before} {metric.title}{after} ({said})".strip()


def gain_axis(metric: Metric) -> str:
    """Say what gains over Local are measured in: `points`, `kg`, `RMSE`."""
    return _unit(metric) or metric.title


def gain_of(metric: Metric) -> str:
    """Say what a gain is a gain of: `points of personal accuracy`, `personal RMSE in kg; up is better`."""
    if metric.unit == "%":
        return f"points of personal {metric.title}"
    return f"personal {metric.title}{metric.unit and ' in '}{metric.unit}; up is better"


def behind(metric: Metric) -> str:
    """Say what losses against the best are losses of: `points of accuracy`, `RMSE (kg)`."""
    if metric.unit == "%":
        return f"points of {metric.title}"
    return f"{metric.title} ({metric.unit})" if metric.unit else metric.title


def tested(task: TaskFacts, kind: str) -> str:
    """Say on which samples a value was measured; `kind`: personal or global."""
    if task.has_classes:
        where = {"personal": "the client's own label distribution", "global": "all labels equally often"}
    else:
        where = {"personal": "the client's own samples", "global": "samples of all clients"}
    return f"tested on {where[kind]}"


def samples(task: TaskFacts) -> str:
    """Title the training samples of clients, which are counted by label where there are labels."""
    return "training samples by label" if task.has_classes else "training samples"


def _unit(metric: Metric) -> str:
    """Name the unit of a difference: two shares in percent are so many points apart."""
    return "points" if metric.unit == "%" else metric.unit
