-- One row a workflow: its newest run. Input: runs. Where a night has several, the run that LATEST.json names goes before the others.
select *
from runs
qualify row_number() over (
    partition by workflow
    order by night desc, run_id = $latest desc, run_id desc
) = 1
order by exit_code = 0, workflow
