-- Grain: one signature, with its state and what the next publication has to know of it. Inputs: signatures, before (`Standings` of the publication before),
-- proof (as proof.sql gives it).
-- Covered: a case of it is proven, and a positive vouches for the tool it is about (semantics.md §8). covered_in: the judging modes, each with its live set,
-- in which one is proven.
-- Escaped: it was covered once, and more traces show it than then, whatever was said of it since. It stays so until another case is proven to cover it, or a
-- person retires it; the case that let it through passed all the while.
-- More traces, not later ones: redaction moves the dates of a trace by up to a year. Traces that retention takes out are not waited for.
with proven as (
    select signature, list_sort(list(case_id)) as cases, list_sort(list_distinct(flatten(list(proven_in)))) as covered_in
    from proof
    where case_kind = 'failure' and proven and vouched
    group by signature
),

known as (
    select
        signatures.*,
        proven.cases,
        proven.covered_in,
        before.covered_by,
        before.covered_traces,
        signatures.state <> 'retired'
        and coalesce(before.let_through or signatures.traces > before.covered_traces, false)
        and coalesce(list_has_all(before.covered_by, proven.cases), true) as let_through
    from signatures
    left join proven using (signature)
    left join before using (signature)
),

told as (
    select
        *,
        case
            when state = 'retired' then 'retired'
            when case_id is null then 'open'
            when let_through then 'escaped'
            when cases is not null then 'covered'
            else 'open'
        end as stands
    from known
)

select
    signature,
    stands as state,
    case when stands = 'covered' then covered_in else [] end as covered_in,
    case when stands = 'covered' then cases when stands = 'retired' then [] else coalesce(covered_by, []) end as covered_by,
    case when stands = 'covered' then traces when stands <> 'retired' and covered_traces is not null then least(covered_traces, traces) end as covered_traces,
    let_through
from told
order by signature
