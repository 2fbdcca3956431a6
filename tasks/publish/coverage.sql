-- Grain: one cell (workflow, tool, error_code, bucket). Inputs: universe (cells from schemas and declared codes), strata, proof (as proof.sql gives it: a row
-- a case). Parameter: typical.
-- A case lies in the cells of the tool it is about that its own trace met; one whose trace is gone lies in the tool's typical happy cell.
-- A cell is covered when it holds a failure case, all of those are proven, no break of any case in it is alive, and a positive vouches for its tool.
-- covered_in: the judging modes, each with its live set, in which all of its failure cases are proven; none where they are proven in different ones.
with seen as (
    select workflow, tool, error_code, bucket, count(distinct trace_id) as runs
    from strata
    where workflow is not null
    group by workflow, tool, error_code, bucket
),

met as (
    select distinct proof.case_id, proof.workflow, strata.tool, strata.error_code, strata.bucket
    from proof
    inner join strata on proof.trace_id = strata.trace_id and (proof.tool is null or proof.tool = strata.tool)
),

placed as (
    select * from met
    union all
    select case_id, workflow, coalesce(tool, '-'), 'ok', $typical
    from proof
    where case_id not in (select case_id from met)
),

positive as (
    select workflow, tool, count(*) as positives
    from (select workflow, unnest(vouches) as tool from proof)
    group by workflow, tool
),

proven_there as (
    select workflow, tool, error_code, bucket, judged_in, count(*) as proven
    from (
        select placed.workflow, placed.tool, placed.error_code, placed.bucket, unnest(proof.proven_in) as judged_in
        from placed
        inner join proof using (case_id)
        where proof.case_kind = 'failure'
    )
    group by workflow, tool, error_code, bucket, judged_in
),

failures as (
    select placed.workflow, placed.tool, placed.error_code, placed.bucket, count(*) as failures
    from placed
    inner join proof using (case_id)
    where proof.case_kind = 'failure'
    group by placed.workflow, placed.tool, placed.error_code, placed.bucket
),

proven as (
    select workflow, tool, error_code, bucket, list_sort(list(judged_in)) as covered_in
    from proven_there
    inner join failures using (workflow, tool, error_code, bucket)
    where proven_there.proven = failures.failures
    group by workflow, tool, error_code, bucket
),

held as (
    select
        placed.workflow,
        placed.tool,
        placed.error_code,
        placed.bucket,
        count(*) as cases,
        sum(proof.applied) as applied,
        sum(proof.killed) as killed,
        coalesce(bool_and(proof.proven) filter (proof.case_kind = 'failure'), false)
        and sum(proof.wanted) = sum(proof.killed) as proven
    from placed
    inner join proof using (case_id)
    group by placed.workflow, placed.tool, placed.error_code, placed.bucket
),

cells as (
    select workflow, tool, error_code, bucket from universe
    union
    select workflow, tool, error_code, bucket from seen
    union
    select workflow, tool, error_code, bucket from held
)

select
    cells.*,
    coalesce(seen.runs, 0) as runs,
    coalesce(held.cases, 0) as cases,
    coalesce(positive.positives, 0) as positives,
    cast(coalesce(held.applied, 0) as bigint) as breaks_applied,
    cast(coalesce(held.killed, 0) as bigint) as breaks_killed,
    case
        when held.cases is null and seen.runs is null then 'not_seen'
        when held.cases is null then 'gap'
        when held.proven and coalesce(positive.positives, 0) > 0 then 'covered'
        else 'unproven'
    end as state,
    case when held.proven and coalesce(positive.positives, 0) > 0 then coalesce(proven.covered_in, []) else [] end as covered_in
from cells
left join seen using (workflow, tool, error_code, bucket)
left join held using (workflow, tool, error_code, bucket)
left join proven using (workflow, tool, error_code, bucket)
left join positive using (workflow, tool)
order by workflow, tool, error_code, bucket
