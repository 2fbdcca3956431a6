-- Grain: one case, with what the current replays prove of it. Inputs: cases (case_id, workflow, case_kind, tool, signature, trace_id, digest: of the case
-- as it stands today, breaks: how many it declares), strata, replays. Parameter: runs (the run ids that are current).
-- A trial counts where it ran sealed, rests on no simulated answer, and was of the case as it stands today; one that does not count shows nothing.
-- Proven in a judging mode with its live set: it passed there, it declares breaks, and each of them was killed there; one that applied nowhere was not
-- (semantics.md §8.1). Proven: it passed in every current trial, and is proven in one of them at least. A break that only one mode kills and a break that
-- only another one kills prove nothing together.
-- Equivalent: breaks that were shown to change nothing: they survived, and wherever one applied the run was to the byte the unbroken first trial.
-- Vouches: the tools that a positive which passed speaks for: its own, and those that its trace used well. Where a failure rests on no tool (-), any does.
with tried as (
    select
        replays.case_id,
        replays.run_id,
        replays.mode,
        replays.live,
        replays.after,
        replays.trial,
        replays.outcome,
        replays.broken_by,
        replays.break_state,
        replays.transcript_digest,
        coalesce(replays.isolation = 'hermetic' and not replays.simulated and replays.case_digest = cases.digest, false) as counts
    from replays
    inner join cases using (case_id)
    where replays.run_id in (select unnest($runs))
),

labelled as (
    select *, mode || case when live = '' then '' else ' live ' || live end as judged_in
    from tried
),

passing as (
    select case_id, judged_in, bool_and(outcome = 'passed' and counts) as passed
    from labelled
    where broken_by is null
    group by case_id, judged_in
),

judged as (
    select case_id, bool_and(passed) as passed
    from passing
    group by case_id
),

killing as (
    select case_id, judged_in, count(distinct broken_by) as killed
    from labelled
    where broken_by is not null and counts and break_state = 'killed'
    group by case_id, judged_in
),

unbroken as (
    select distinct case_id, run_id, mode, live, after, transcript_digest
    from tried
    where broken_by is null and trial = 1
),

breaks as (
    select
        tried.case_id,
        tried.broken_by,
        bool_or(tried.counts and tried.break_state <> 'error') as applied,
        bool_or(tried.counts and tried.break_state = 'killed') as killed,
        coalesce(
            bool_and(tried.counts and tried.break_state = 'survived' and unbroken.case_id is not null) filter (tried.break_state <> 'error'),
            false
        ) as equivalent
    from tried
    left join unbroken using (case_id, run_id, mode, live, after, transcript_digest)
    where tried.broken_by is not null
    group by tried.case_id, tried.broken_by
),

broken as (
    select
        case_id,
        count(*) as tried,
        count(*) filter (applied) as applied,
        count(*) filter (killed) as killed,
        count(*) filter (equivalent) as equivalent
    from breaks
    group by case_id
),

counted as (
    select
        cases.*,
        coalesce(judged.passed, false) as passed,
        greatest(cases.breaks, coalesce(broken.tried, 0)) as wanted,
        coalesce(broken.applied, 0) as applied,
        coalesce(broken.killed, 0) as killed,
        coalesce(broken.equivalent, 0) as equivalent
    from cases
    left join judged using (case_id)
    left join broken using (case_id)
),

proving as (
    select counted.case_id, list_sort(list(passing.judged_in)) as proven_in
    from counted
    inner join passing using (case_id)
    inner join killing using (case_id, judged_in)
    where counted.passed and passing.passed and counted.wanted > 0 and killing.killed = counted.wanted
    group by counted.case_id
),

used as (
    select case_id, workflow, coalesce(tool, '-') as tool from counted where case_kind = 'positive' and passed
    union
    select case_id, workflow, '-' from counted where case_kind = 'positive' and passed
    union
    select counted.case_id, counted.workflow, strata.tool
    from counted
    inner join strata on counted.trace_id = strata.trace_id and strata.error_code = 'ok'
    where counted.case_kind = 'positive' and counted.passed
),

vouching as (
    select case_id, list_sort(list(tool)) as vouches
    from used
    group by case_id
)

select
    counted.case_id,
    counted.workflow,
    counted.case_kind,
    counted.tool,
    counted.signature,
    counted.trace_id,
    counted.passed,
    counted.wanted,
    counted.applied,
    counted.killed,
    counted.equivalent,
    proving.case_id is not null as proven,
    coalesce(proving.proven_in, []) as proven_in,
    coalesce(vouching.vouches, []) as vouches,
    exists (
        select 1 from used where used.workflow = counted.workflow and used.tool = coalesce(counted.tool, '-')
    ) as vouched
from counted
left join vouching using (case_id)
left join proving using (case_id)
order by counted.case_id
