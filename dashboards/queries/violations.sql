-- One row a violated invariant of the runs and cases given, hard tiers first. Input: violations.
select *
from violations
where run_id in (select unnest($runs)) and case_id in (select unnest($cases)) and truth = 'violated' and not advisory
order by tier, seq, sub, invariant_id
