-- One row a step of the trials that were published for the runs and cases given, in order. Input: steps.
select *
from steps
where run_id in (select unnest($runs)) and case_id in (select unnest($cases))
order by replay_id, position
