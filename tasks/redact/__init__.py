"""Redact parsed values under a policy and a key."""
