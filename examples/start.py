"""A first result with a file of one's own: twelve machines learn together to tell what state they are in."""

import numpy as np
import pandas as pd

from coterie import run


def machines(rows: int = 50) -> pd.DataFrame:
    """Make up a table of measurements: one row each, whose machine it is, six sensors, and the state."""
    draw = np.random.default_rng(0)
    machine, state = np.repeat(np.arange(12), rows), draw.integers(0, 3, 12 * rows)
    sensors = draw.normal(size=(3, 6))[state] + draw.normal(size=(12 * rows, 6))
    sensors[machine >= 6] = sensors[machine >= 6, ::-1]  # these were wired the other way round
    table = pd.DataFrame(sensors.round(3), columns=[f"sensor{k}" for k in range(6)])
    return table.assign(machine=machine, state=state)


if __name__ == "__main__":
    machines().to_csv("machines.csv", index=False)  # take your own file instead
    result = run("start.toml")
    print(result.table()[["personal_mean", "personal_worst10", "personal_hurt_vs_local"]])
    print("pictures in", result.path / "plots")
