-- Grain: one cell (workflow, tool, error_code, bucket). Inputs: universe (cells from schemas and declared codes), strata, cases (case_id, workflow,
-- case_kind, tool, trace_id, breaks: how many it declares), replays. Parameters: runs (the run ids that are current), typical.
-- A case lies in the cells of the tool it is about that its own trace met; one whose trace is gone lies in the tool's typical happy cell.
-- A cell is covered when it holds a failure case, all of them passed with every break they declare killed, and a positive in which the tool was used
-- well passed too.
with seen as (
    select workflow, tool, error_code, bucket, count(distinct trace_id) as runs
    from strata
    where workflow is not null
    group by workflow, tool, error_code, bucket
),

met as (
    select distinct cases.case_id, cases.workflow, strata.tool, strata.error_code, strata.bucket
    from cases
    inner join strata on cases.trace_id = strata.trace_id and (cases.tool is null or cases.tool = strata.tool)
),

placed as (
    select * from met
    union all
    select case_id, workflow, coalesce(tool, '-'), 'ok', $typical
    from cases
    where case_id not in (select case_id from met)
),

judged as (
    select case_id, bool_and(outcome = 'passed') as passed
    from replays
    where broken_by is null and run_id in (select unnest($runs))
    group by case_id
),

broken as (
    select
        case_id,
        count(distinct broken_by) as tried,
        count(distinct broken_by) filter (break_state <> 'error') as applied,
        count(distinct broken_by) filter (break_state = 'killed') as killed
    from replays
    where broken_by is not null and run_id in (select unnest($runs))
    group by case_id
),

standing as (
    select
        cases.case_id,
        cases.workflow,
        cases.tool,
        cases.case_kind,
        coalesce(judged.passed, false) as passed,
        greatest(cases.breaks, coalesce(broken.tried, 0)) as wanted,
        coalesce(broken.applied, 0) as applied,
        coalesce(broken.killed, 0) as killed
    from cases
    left join judged using (case_id)
    left join broken using (case_id)
),

used as (
    select case_id, workflow, tool from standing where case_kind = 'positive' and passed
    union
    select standing.case_id, standing.workflow, met.tool
    from standing
    inner join cases using (case_id)
    inner join strata as met on cases.trace_id = met.trace_id and met.error_code = 'ok'
    where standing.case_kind = 'positive' and standing.passed
),

positive as (
    select workflow, tool, count(*) as positives
    from used
    group by workflow, tool
),

held as (
    select
        placed.workflow,
        placed.tool,
        placed.error_code,
        placed.bucket,
        count(*) as cases,
        sum(standing.applied) as applied,
        sum(standing.killed) as killed,
        coalesce(
            bool_and(standing.passed and standing.wanted > 0 and standing.killed = standing.wanted)
                filter (standing.case_kind = 'failure'),
            false
        ) as proven
    from placed
    inner join standing using (case_id)
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
    end as state
from cells
left join seen using (workflow, tool, error_code, bucket)
left join held using (workflow, tool, error_code, bucket)
left join positive using (workflow, tool)
order by workflow, tool, error_code, bucket
