"""What real peers did, computed again by the simulator."""
