-- Grain: one signature, with its state. Inputs: signatures, before (those of the publication before), proof (as proof.sql gives it).
-- Covered: a case of it is proven, and a positive vouches for the tool it is about (semantics.md §8).
-- Escaped: it was covered, and more traces show it than then; it stays so while the same case is said to cover it, whatever that came to tonight.
-- More traces, not later ones: redaction moves the dates of a trace by up to a year.
with covered as (
    select distinct signature
    from proof
    where case_kind = 'failure' and proven and vouched
)

select
    signatures.signature,
    case
        when signatures.state = 'retired' then 'retired'
        when before.state = 'covered' and signatures.case_id is not null and signatures.traces > before.traces then 'escaped'
        when before.state = 'escaped' and signatures.case_id = before.case_id then 'escaped'
        when covered.signature is null then 'open'
        else 'covered'
    end as state
from signatures
left join covered using (signature)
left join before using (signature)
order by signatures.signature
