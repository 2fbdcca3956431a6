-- One row a (run, case) of the runs given, with the first violated invariant of the trial that decided, and where that trial diverged.
-- Inputs: results, replays, violations.
with violated as (
    select
        replay_id,
        arg_min(invariant_id, rank) as invariant_id,
        arg_min(message, rank) as message,
        arg_min(seq, rank) as seq,
        arg_min(sub, rank) as sub,
        arg_min(boundary, rank) as boundary,
        arg_min(boundary_state, rank) as boundary_state,
        count(*) as violated
    from (
        select *, row_number() over (partition by replay_id order by tier, seq, sub, invariant_id) as rank
        from violations
        where truth = 'violated' and not advisory
    )
    group by replay_id
)
select
    results.*,
    violated.* exclude (replay_id),
    replays.divergence,
    replays.divergence_seq,
    replays.divergence_boundary,
    replays.failure,
    replays.reason
from results
left join violated using (replay_id)
left join replays using (replay_id)
where results.run_id in (select unnest($runs))
order by results.night desc, results.case_id
