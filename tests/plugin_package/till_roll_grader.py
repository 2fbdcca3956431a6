"""A grader of the same third party; it imports the engine alone, since it runs where the candidate does."""

from twiceshy.judgement import Context, Judgement
from twiceshy.outcome import Truth


class FewCalls:
    """At most one call a run."""

    id = "few_calls"
    version = 3

    def __call__(self, context: Context, /) -> Judgement:
        """Violated by the second call."""
        many = len(context.run.steps) > 1
        return Judgement(
            id=self.id, version=self.version, kind="count", truth=Truth.VIOLATED if many else Truth.SATISFIED
        )


few_calls = FewCalls()
