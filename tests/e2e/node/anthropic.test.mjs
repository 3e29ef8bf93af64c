// The server seen through Anthropic's Node client. TENON_URL names a running server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.env.TENON_URL, apiKey: "not-needed", maxRetries: 0 });
const demo = JSON.parse(readFileSync(new URL("../../../models/demo_questions.json", import.meta.url)));
const tools = demo.tools.map(({ function: { name, description, parameters } }) => ({ name, description, input_schema: parameters }));
const request = (question) => ({
  model: "tenon-tiny", temperature: 0, max_tokens: 128, tools, messages: [{ role: "user", content: question.question }],
});
const made = (message) => message.content.filter((block) => block.type === "tool_use").map((call) => [call.name, call.input]);

const calling = demo.questions.filter((question) => question.calls.length > 0);

for (const question of calling) {
  const expected = question.calls.map((call) => [call.name, call.arguments]);

  test(`whole: ${question.question}`, async () => {
    const message = await client.messages.create(request(question));
    assert.equal(message.stop_reason, "tool_use");
    assert.deepEqual(made(message), expected);
  });

  test(`stream: ${question.question}`, async () => {
    const message = await client.messages.stream(request(question)).finalMessage();
    assert.equal(message.stop_reason, "tool_use");
    assert.deepEqual(made(message), expected);
  });
}

test("tokens are counted", async () => {
  const { input_tokens } = await client.messages.countTokens({ model: "tenon-tiny", messages: request(calling[0]).messages, tools });
  assert.ok(input_tokens > 10);
});

test("an unknown model is a NotFoundError", async () => {
  await assert.rejects(client.messages.create({ ...request(calling[0]), model: "nosuch" }), Anthropic.NotFoundError);
});
