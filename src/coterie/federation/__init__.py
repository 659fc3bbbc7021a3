"""Dealing a data set to clients: which samples each of them has, sees and calls what."""

from coterie.federation.architectures import architecture_names, architectures
from coterie.federation.dealer import Dealer
from coterie.federation.recording import recorded

__all__ = ["Dealer", "architecture_names", "architectures", "recorded"]
