"""Engines of secure computation: sums over columns that several organisations hold, and nobody sees but the result."""
