"""A request on its way to a replica."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.distributed.request_cost import RequestCost


@dataclass(slots=True, eq=False)
class PlacedRequest:
    """Kept by `ReplicaLoop` until the request has ended.

    Attributes:
        request_id: its id.
        message: the packed command that adds it; empty once it is sent.
        cost: what it is booked for.
        replica: who has it; None while it waits.
        is_booked: whether the balancer counts it.
        is_withdrawn: whether it is not to be given away any more.
    """

    request_id: str
    message: bytes
    cost: RequestCost
    replica: int | None = None
    is_booked: bool = False
    is_withdrawn: bool = False
