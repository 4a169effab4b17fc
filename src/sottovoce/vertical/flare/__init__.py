"""Parties in different organisations: the same interface over the network, on NVIDIA FLARE (extra ``[vertical]``)."""
