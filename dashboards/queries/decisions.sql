-- One row a source: how many considered traces were promoted, became members, were held, were discarded. Input: admissions.
select
    source,
    count(*) as considered,
    count(*) filter (where decision = 'promote') as promoted,
    count(*) filter (where decision = 'member') as members,
    count(*) filter (where decision = 'hold') as held,
    count(*) filter (where decision = 'discard') as discarded
from admissions
group by source
order by source
