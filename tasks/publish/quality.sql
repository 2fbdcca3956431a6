-- Grain: one (scope, metric). Inputs: pulls, traces, findings, admissions, attributions, signatures, replays, coverage, quarantine, proof.
-- Parameters: as_of_ns, runs (the run ids that are current), last_traces (traces of the last published generation; null before the first).
-- Ratios are null, and left out, where there is nothing to divide by.
with cells as (
    -- A cell over its argument buckets, with the first state that fits, as the site shows it.
    select case
        when sum(cases) = 0 and sum(runs) = 0 then 'not_seen'
        when sum(cases) = 0 then 'gap'
        when count(*) filter (where state = 'unproven') > 0 then 'unproven'
        else 'covered'
    end as state
    from coverage
    group by workflow, tool, error_code
),

measured (scope, metric, unit, value) as (
    select 'all', 'traces', 'count', count(*) from traces
    union all
    select 'all', 'traces_against_last', 'ratio', count(*) / nullif($last_traces, 0) from traces
    union all
    select 'all', 'traces_unclaimed', 'ratio', avg((workflow is null)::int) from traces
    union all
    select 'all', 'traces_without_redaction', 'count', count(*) filter (policy_digest is null) from traces
    union all
    select 'all', 'orphan_spans', 'ratio', sum(orphans) / nullif(sum(spans), 0) from traces
    union all
    select 'all', 'age_of_newest_trace', 'ns', $as_of_ns - max(newest_ns) from pulls
    union all
    select 'all', 'spans_quarantined', 'ratio', sum(quarantined) / nullif(sum(spans_in), 0) from pulls
    union all
    select 'all', 'spans_unaccounted', 'count', sum(spans_in - spans_out - quarantined) from pulls
    union all
    select 'source:' || source, 'spans_in', 'count', sum(spans_in) from pulls group by source
    union all
    select 'source:' || source, 'spans_duplicate', 'count', sum(duplicates) from pulls group by source
    union all
    select 'source:' || source, 'traces', 'count', count(*) from traces group by source
    union all
    select 'source:' || source, 'traces_flagged', 'count', count(*) filter (flagged) from traces group by source
    union all
    select 'table:' || coalesce("table", unit), 'set_aside', 'count', count(*) from quarantine group by all
    union all
    select 'all', 'invariants_unjudged', 'ratio', avg((level = 'unjudged')::int) from findings
    union all
    select 'all', 'envelopes_complete', 'ratio', avg((completeness <> 'incomplete')::int) from admissions
    union all
    select 'all', 'leaks_held', 'count', count(*) filter (list_has_any(reasons, ['hold:leak_hit', 'hold:scanner_error'])) from admissions
    union all
    select 'all', 'promoted_inconsistent', 'count', count(*) filter (decision = 'promote' and not self_consistent) from admissions
    union all
    select 'source:' || source, 'considered_' || decision, 'count', count(*) from admissions group by source, decision
    union all
    select 'all', 'failures_attributed', 'ratio',
        count(distinct trace_id) filter (verdict in ('suggested', 'proven')) / nullif(count(distinct trace_id), 0)
    from attributions
    union all
    select 'all', 'signatures', 'count', count(*) from signatures
    union all
    select 'all', 'signatures_covered', 'ratio', avg((state = 'covered')::int) from signatures where state <> 'retired'
    union all
    select 'all', 'signatures_escaped', 'count', count(*) filter (state = 'escaped') from signatures
    union all
    select 'all', 'replays', 'count', count(*) from replays where run_id in (select unnest($runs))
    union all
    select 'all', 'replays_in_error', 'ratio', avg((outcome = 'error')::int) from replays where run_id in (select unnest($runs))
    union all
    select 'all', 'breaks_killed_of_all', 'ratio', sum(killed) / nullif(sum(wanted), 0) from proof
    union all
    select 'all', 'breaks_killed_of_reachable', 'ratio', sum(killed) / nullif(sum(wanted) - sum(equivalent), 0) from proof
    union all
    select 'all', 'cells_covered', 'ratio', avg((state = 'covered')::int) from cells
    union all
    select 'all', 'cells_gap', 'count', count(*) filter (state = 'gap') from cells
)

select scope, metric, unit, cast(value as double) as value
from measured
where value is not null
order by scope, metric
