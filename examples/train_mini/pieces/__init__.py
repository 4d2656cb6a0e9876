"""Functions of tensors that the network is made of; each may be compiled on its own."""
