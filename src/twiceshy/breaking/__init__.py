"""Break operators: deliberate damage that must turn a case red, so that no candidate's own code is touched (semantics.md §8).

At the boundary, while the candidate declares it:

`guard.off:NAME`            the guard runs no more and lets everything pass
`hook.off:NAME`             the hook passes on what it got
`hook.strip:TOOL.path`      a hook after TOOL removes a path from its result
`args.set:TOOL.path=VALUE`  a hook before TOOL sets an argument; VALUE is JSON, or plain text
`call.drop:TOOL`            the call is never made, and the agent is told what it would have been told
`call.duplicate:TOOL`       the call is made twice
`order.swap:A,B`            the first call of A is made only after the next call of B; the agent is told in time what A would have told it. Where no B
                            follows, A is never made and the break has applied nowhere
`error.swallow:TOOL`        what TOOL raises, a guard's refusal too, is shown as success; a question to a person is none of that
`proposal.replace:SEQ`      the live model gives the output that was recorded at step SEQ

On the candidate's real code, in a private copy (`twiceshy.breaking.copies`): `patch: file.diff`, `env: {NAME: value}`, `git: REF`.
"""

from twiceshy.breaking.boundary import BreakingBoundary
from twiceshy.breaking.operators import Break, CodeBreak, Operator, Written, parse

__all__ = ["Break", "BreakingBoundary", "CodeBreak", "Operator", "Written", "parse"]
