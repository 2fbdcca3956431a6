"""Sample agents, each with its production bug behind a version, its hooks and guards: refund, scheduling, research.

Their models are scripted policies in plain code: they read the prompt, the messages, the offered tools and the results, so a changed prompt, hook or
result changes what they do. Candidates are named `examples.refund:buggy`, `examples.scheduling:fixed`, `examples.research:looping`, ...
"""
