-- One row an intercepted write of the runs and cases given, in order. Input: intents.
select *
from intents
where run_id in (select unnest($runs)) and case_id in (select unnest($cases))
order by replay_id, seq
