"""Domains: products of boxes, l1 balls, l2 balls and simplices."""

from sottovoce.optimize.domains.base import Block
from sottovoce.optimize.domains.box import Box
from sottovoce.optimize.domains.l1_ball import L1Ball
from sottovoce.optimize.domains.l2_ball import L2Ball
from sottovoce.optimize.domains.product import ProductDomain
from sottovoce.optimize.domains.simplex import Simplex

__all__ = ["Block", "Box", "L1Ball", "L2Ball", "ProductDomain", "Simplex"]
