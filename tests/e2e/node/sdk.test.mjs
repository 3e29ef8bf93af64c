// The server seen through OpenAI's Node client. TENON_URL names a running server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.env.TENON_URL}/v1`, apiKey: "not-needed", maxRetries: 0 });
const demo = JSON.parse(readFileSync(new URL("../../../models/demo_questions.json", import.meta.url)));
const request = (question) => ({
  model: "tenon-tiny", temperature: 0, max_tokens: 128, tools: demo.tools,
  messages: [{ role: "user", content: question.question }],
});
const resultText = (result) => (typeof result === "string" ? result : JSON.stringify(result));
const made = (message) => (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]);

const calling = demo.questions.filter((question) => question.calls.length > 0);

for (const question of calling) {
  const expected = question.calls.map((call) => [call.name, call.arguments]);

  test(`whole: ${question.question}`, async () => {
    const { choices } = await client.chat.completions.create(request(question));
    assert.equal(choices[0].finish_reason, "tool_calls");
    assert.deepEqual(made(choices[0].message), expected);
  });

  test(`stream: ${question.question}`, async () => {
    const runner = client.chat.completions.stream(request(question));
    const { choices } = await runner.finalChatCompletion();
    assert.equal(choices[0].finish_reason, "tool_calls");
    assert.deepEqual(made(choices[0].message), expected);
  });
}

test("runTools executes the call and ends with a sentence", async () => {
  const question = calling[0];
  const called = [];
  const tools = demo.tools.map((tool) => ({
    type: "function",
    function: {
      ...tool.function, parse: JSON.parse,
      function: (args) => { called.push([tool.function.name, args]); return resultText(question.results[0]); },
    },
  }));
  const runner = client.chat.completions.runTools({ ...request(question), tools });
  const text = await runner.finalContent();
  assert.deepEqual(called, question.calls.map((call) => [call.name, call.arguments]));
  assert.ok(text.length > 0);
});

test("models are listed", async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.ok(names.includes("tenon-tiny"));
});

test("an unknown model is a NotFoundError", async () => {
  await assert.rejects(client.chat.completions.create({ ...request(calling[0]), model: "nosuch" }), OpenAI.NotFoundError);
});

test("Responses: a stream is the whole, and the loop goes on from it", async () => {
  const question = calling[0];
  const tools = demo.tools.map((tool) => ({ type: "function", strict: null, ...tool.function }));
  const body = { model: "tenon-tiny", temperature: 0, max_output_tokens: 128, tools, input: question.question };
  const stream = client.responses.stream(body);
  const numbers = [];
  for await (const event of stream) numbers.push(event.sequence_number);
  assert.deepEqual(numbers, numbers.map((_, index) => index));
  const first = await stream.finalResponse();
  const calls = first.output.filter((item) => item.type === "function_call");
  assert.deepEqual(calls.map((call) => [call.name, JSON.parse(call.arguments)]), question.calls.map((call) => [call.name, call.arguments]));
  const outputs = calls.map((call) => ({
    type: "function_call_output", call_id: call.call_id, output: resultText(question.results[0]),
  }));
  const second = await client.responses.create({ ...body, input: outputs, previous_response_id: first.id });
  assert.ok(second.output_text.length > 0);
  assert.deepEqual((await client.responses.retrieve(second.id)).output, second.output);
});
