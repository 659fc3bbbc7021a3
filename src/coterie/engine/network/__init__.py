"""The local step of a stack of clients, worked out by hand for layers that are known.

`torch.func` differentiates any model, but for a stack of small ones it pays for generality: new
tensors for every gradient and every updated weight, and convolutions in groups. Where a model is a
chain of known layers, the chain rule is written out here, one file a layer, and descends in place.
"""

from coterie.engine.network.network import Gradients, Network, descend, network, written_out
from coterie.engine.network.perceptron import Perceptron

__all__ = ["Gradients", "Network", "Perceptron", "descend", "network", "written_out"]
