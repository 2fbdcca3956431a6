"""Worlds: small seeded datastores that answer reads and apply intents in a replay (semantics.md §6.5)."""

from twiceshy.worlds.coded import Refused, World, read, write
from twiceshy.worlds.tables import Tables, TableSeed, WorldMiss

__all__ = ["Refused", "TableSeed", "Tables", "World", "WorldMiss", "read", "write"]
