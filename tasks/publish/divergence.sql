-- Grain: one (night, mode, workflow). Input: replays. Plain trials only; an ERROR is our fault and no replay that could have diverged.
select
    night,
    mode,
    workflow,
    count(*) as replays,
    count(*) filter (outcome = 'diverged') as diverged,
    list_sort(list(distinct candidate_digest)) as candidates,
    md5(string_agg(distinct case_digest, ',' order by case_digest)) as catalog,
    list_sort(list(distinct harness_state)) as harness
from replays
where broken_by is null and outcome <> 'error'
group by night, mode, workflow
order by night, mode, workflow
