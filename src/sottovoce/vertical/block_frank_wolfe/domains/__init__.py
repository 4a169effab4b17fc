"""Domains: products of boxes, l1 balls, l2 balls and simplices."""

from sottovoce.vertical.block_frank_wolfe.domains.base import Block
from sottovoce.vertical.block_frank_wolfe.domains.box import Box
from sottovoce.vertical.block_frank_wolfe.domains.l1_ball import L1Ball
from sottovoce.vertical.block_frank_wolfe.domains.l2_ball import L2Ball
from sottovoce.vertical.block_frank_wolfe.domains.product import ProductDomain
from sottovoce.vertical.block_frank_wolfe.domains.simplex import Simplex

__all__ = ["Block", "Box", "L1Ball", "L2Ball", "ProductDomain", "Simplex"]
