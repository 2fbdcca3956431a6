-- Grain: one (trace_id, tool, bucket, error_code); a trace without a tool call stands in tool '-'.
-- Inputs: traces, crossings (views of those tables). Parameters: seed, quota_ok, quota_error, typical.
-- A call stands in the stratum of each distinct primary bucket among its arguments. The draw rests on seed and trace alone, so traces that
-- arrive later move no trace that is there; ties cannot happen within a stratum, which holds a trace once.
with calls as (
    select
        trace_id,
        name as tool,
        coalesce(error_code, 'ok') as error_code,
        coalesce(
            nullif(list_distinct(list_transform(bucket_labels, lambda held: coalesce(held.labels[1], $typical))), []),
            [$typical]
        ) as buckets
    from crossings
    where kind = 'tool'
),

met as (
    select trace_id, tool, bucket, error_code, count(*) as calls
    from (select trace_id, tool, error_code, unnest(buckets) as bucket from calls)
    group by trace_id, tool, bucket, error_code
),

placed as (
    select
        traces.trace_id,
        traces.workflow,
        coalesce(met.tool, '-') as tool,
        coalesce(met.bucket, $typical) as bucket,
        coalesce(met.error_code, 'ok') as error_code,
        coalesce(met.calls, 0) as calls,
        md5(concat($seed, '|', traces.trace_id)) as draw
    from traces
    left join met on traces.trace_id = met.trace_id
),

ranked as (
    select
        *,
        count(*) over (partition by workflow, tool, error_code, bucket) as stratum_size,
        row_number() over (partition by workflow, tool, error_code, bucket order by draw, trace_id) as rank,
        case when error_code = 'ok' then $quota_ok else $quota_error end as quota
    from placed
)

select
    trace_id,
    workflow,
    tool,
    bucket,
    error_code,
    calls,
    stratum_size,
    draw,
    rank,
    cast(quota as bigint) as quota,
    rank <= quota as sampled,
    case when rank <= quota then stratum_size / least(stratum_size, quota) end as weight
from ranked
order by trace_id, tool, bucket, error_code
