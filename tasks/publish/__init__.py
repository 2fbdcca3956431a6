"""Publish coverage, divergence, champion comparison and quality of a generation."""
