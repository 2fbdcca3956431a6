-- Grain: one signature, with its state. Inputs: signatures, before (those of the publication before), cases (case_id, workflow, case_kind, tool, signature,
-- trace_id, breaks: how many it declares), strata, replays. Parameter: runs (the run ids that are current). Covered: its case passed in every current trial, it
-- declares breaks and each of them was killed (one that applied nowhere was not), and a positive in which its tool was used well passed too (semantics.md §8).
-- Escaped: it was covered, and more traces show it than then; it stays so while the same case is said to cover it.
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
        count(distinct broken_by) as tried,
        count(distinct broken_by) filter (break_state = 'killed') as killed
    from replays
    where broken_by is not null and run_id in (select unnest($runs))
    group by case_id
),

used as (
    select case_id, workflow, tool from cases where case_kind = 'positive'
    union
    select cases.case_id, cases.workflow, strata.tool
    from cases
    inner join strata on cases.trace_id = strata.trace_id and strata.error_code = 'ok'
    where cases.case_kind = 'positive'
),

positive as (
    select distinct used.workflow, used.tool
    from used
    inner join now using (case_id)
    where now.passed
),

covered as (
    select distinct cases.signature
    from cases
    inner join now using (case_id)
    inner join broken using (case_id)
    where
        cases.case_kind = 'failure' and now.passed and cases.breaks > 0 and broken.killed = greatest(cases.breaks, broken.tried)
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
