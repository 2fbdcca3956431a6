// The refund agent in Node.js, with the openai package as it is: what tells it of a replay is the environment alone.
// Its tools go to POST /tools/{name}; a refusal of its own guard is reported there too. `--guarded` is the repaired version.
// Input: {"message"} as JSON on standard input. Output: {"status", "message"} as the last line of standard output.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const guarded = process.argv.includes("--guarded");
const streamed = process.argv.includes("--stream");
const { message } = JSON.parse(readFileSync(0, "utf8"));
const client = new OpenAI();
const orders = new Map();

async function gateway(path, options = {}, headers = {}) {
  const authorization = `Bearer ${process.env.TWICESHY_TOKEN}`;
  const answer = await fetch(`${process.env.TWICESHY_TOOLS_URL}${path}`, { ...options, headers: { authorization, ...headers } });
  return answer.json();
}

// The bug of T-1042: the limit goes with what customers must not see, and the model never learns it.
function stripped(order) {
  const hidden = ["margin_pct", "fraud_score", "internal_notes", ...(guarded ? [] : ["policy_limit_gbp"])];
  return Object.fromEntries(Object.entries(order).filter(([name]) => !hidden.includes(name)));
}

function refusal({ order_id, amount_gbp, approval_token }) {
  const limit = orders.get(order_id)?.policy_limit_gbp;
  if (limit === undefined) return "the refund limit of this order is not known";
  return amount_gbp > limit && !approval_token ? `${amount_gbp} GBP is above the limit of ${limit} GBP` : null;
}

async function tool(name, asked) {
  const reason = guarded && name === "issue_refund" ? refusal(asked) : null;
  const headers = reason ? { "x-twiceshy-blocked-by": "refund-approval", "x-twiceshy-reason": reason } : {};
  const told = await gateway(`/${name}`, { method: "POST", body: JSON.stringify(asked) }, headers);
  if (name !== "get_order" || told.error) return told;
  orders.set(asked.order_id, told);
  return stripped(told);
}

async function turn(messages, tools) {
  const request = { model: "refund-planner-1", messages, tools, response_format: { type: "json_object" }, temperature: 0 };
  if (!streamed) return (await client.chat.completions.create(request)).choices[0].message;
  return client.chat.completions.stream(request).finalMessage();
}

const { tools: listed } = await gateway("");
const tools = listed.map(({ name, parameters }) => ({ type: "function", function: { name, parameters } }));
const messages = [{ role: "system", content: "You answer customers of a shop. End with JSON: status, message." }, { role: "user", content: message }];
for (let turns = 0; turns < 12; turns += 1) {
  const answer = await turn(messages, tools);
  if (!answer.tool_calls?.length) {
    console.log(answer.content);
    break;
  }
  messages.push(answer);
  const shown = await Promise.all(answer.tool_calls.map((call) => tool(call.function.name, JSON.parse(call.function.arguments))));
  answer.tool_calls.forEach((call, at) => messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(shown[at]) }));
}
