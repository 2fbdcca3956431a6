"""Renderings of the one verdict object: console lines, JSON, JUnit, Markdown, annotations; and one replayed run step by step.

None of them recomputes an outcome, and every text that may come from a trace passes `escaping` first.
"""
