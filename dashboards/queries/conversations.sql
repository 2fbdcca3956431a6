-- One row a conversation of the runs given, what did not pass first. Input: conversations.
select *
from conversations
where run_id in (select unnest($runs))
order by list_position(['failed', 'error', 'diverged', 'passed'], outcome), workflow, conversation_id
