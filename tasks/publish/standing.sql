-- Grain: one signature, with its state. Inputs: signatures, before (those of the publication before), cases (case_id, workflow, case_kind, tool, signature),
-- replays. Parameter: runs (the run ids that are current). Covered: its case passed in every current trial, breaks were applied and all killed, and a positive
-- of its tool passed too (semantics.md §8). Escaped: it was covered, and more traces show it than then; it stays so while the same case is said to cover it.
-- More traces, not later ones: redaction moves the dates of a trace by up to a year.
with now as (
    select case_id, bool_and(outcome = 'passed') as passed
    from replays
    where broken_by is null and run_id in (select unnest($runs))
    group by case_id
),

broken as (
    select
        case_id,
        count(distinct broken_by) filter (break_state <> 'error') as applied,
        count(distinct broken_by) filter (break_state = 'killed') as killed
    from replays
    where broken_by is not null and run_id in (select unnest($runs))
    group by case_id
),

positive as (
    select distinct cases.workflow, cases.tool
    from cases
    inner join now using (case_id)
    where cases.case_kind = 'positive' and now.passed
),

covered as (
    select distinct cases.signature
    from cases
    inner join now using (case_id)
    inner join broken using (case_id)
    where
        cases.case_kind = 'failure' and now.passed and broken.applied > 0 and broken.killed = broken.applied
        and exists (
            select 1 from positive where positive.workflow = cases.workflow and (cases.tool is null or positive.tool = cases.tool)
        )
)

select
    signatures.signature,
    case
        when signatures.state = 'retired' then 'retired'
        when covered.signature is null then 'open'
        when before.state = 'covered' and signatures.traces > before.traces then 'escaped'
        when before.state = 'escaped' and signatures.case_id is not distinct from before.case_id then 'escaped'
        else 'covered'
    end as state
from signatures
left join covered using (signature)
left join before using (signature)
order by signatures.signature
