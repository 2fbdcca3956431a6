-- One row a cell (workflow, tool, error_code) over its argument buckets; the happy path first. Input: coverage.
-- The first state that fits: not seen (no runs, no case), gap (runs, no case), unproven (a bucket with a case that is not covered), covered.
select
    workflow,
    tool,
    error_code,
    sum(runs)::bigint as runs,
    sum(cases)::bigint as cases,
    -- A positive belongs to the tool, so every bucket names the same ones.
    max(positives)::bigint as positives,
    sum(breaks_applied)::bigint as breaks_applied,
    sum(breaks_killed)::bigint as breaks_killed,
    count(*) filter (where runs > 0 or cases > 0) as buckets,
    count(*) filter (where state = 'covered') as buckets_covered,
    list_sort(list_distinct(coalesce(flatten(list(covered_in)), []))) as covered_in,
    list(bucket order by runs desc, bucket) filter (where state = 'gap') as gaps,
    case
        when sum(cases) = 0 and sum(runs) = 0 then 'not_seen'
        when sum(cases) = 0 then 'gap'
        when count(*) filter (where state = 'unproven') > 0 then 'unproven'
        else 'covered'
    end as state
from coverage
group by workflow, tool, error_code
order by workflow, tool, error_code <> 'ok', error_code
