-- One row a run that stands for its night: (night, workflow), newest night first. Input: runs.
select *
from runs
qualify row_number() over (
    partition by workflow, night
    order by run_id = $latest desc, run_id desc
) = 1
order by night desc, workflow
