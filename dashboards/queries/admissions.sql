-- One row a (source, decision, reason): traces that were considered and not taken, and why. A trace with two reasons is in two rows. Input: admissions.
select
    source,
    decision,
    reason,
    count(*) as traces
from admissions, unnest(reasons) as why (reason)
group by source, decision, reason
order by traces desc, source, decision, reason
