-- One row a signature that is not retired, with the layer suspected first in the trace of its case. Inputs: signatures, attributions.
select
    signatures.*,
    attributions.layer,
    attributions.verdict
from signatures
left join attributions
    on attributions.trace_id = signatures.case_trace_id and attributions.rank = 1
where signatures.state <> 'retired'
order by signatures.slug
