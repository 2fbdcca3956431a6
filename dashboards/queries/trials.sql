-- One row a trial of the cases and runs given, broken ones after plain ones, with the ids it violated. Inputs: replays, violations.
with violated as (
    select replay_id, list(invariant_id order by invariant_id) as violated
    from violations
    where truth = 'violated' and not advisory
    group by replay_id
)
select replays.*, violated.violated
from replays
left join violated using (replay_id)
where run_id in (select unnest($runs)) and case_id in (select unnest($cases))
order by case_id, broken_by is not null, broken_by, mode <> 'full', mode, live, after, trial
