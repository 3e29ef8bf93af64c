// The Vercel AI SDK: the page's loop, the same as a stream, and objects. TENON_URL names a running server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generateObject, generateText, stepCountIs, streamObject, streamText } from "ai";
import { z } from "zod";
import { run } from "../recipe.mjs";

const { tenon, getWeather, result } = await run("ai-sdk.md", import.meta.dirname, ["tenon", "getWeather", "result"]);
const model = tenon("tenon-tiny");
const ask = {
  model, temperature: 0, maxOutputTokens: 128, maxRetries: 0, prompt: "What is the weather in Ljubljana?",
  tools: { get_weather: getWeather },
};
const steps = {
  stopWhen: stepCountIs(3), prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "auto" }),
};
const callsOf = (step) => step.toolCalls.map((call) => [call.toolName, call.input]);

test("the page's loop calls and answers", () => {
  assert.equal(result.steps[0].finishReason, "tool-calls");
  assert.ok(callsOf(result.steps[0]).length > 0);
  assert.equal(result.steps.at(-1).finishReason, "stop");
  assert.ok(result.text.length > 0);
});

test("the loop as a stream is the same", async () => {
  const stream = streamText({ ...ask, ...steps });
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  const streamed = await stream.steps;
  assert.deepEqual(streamed.map(callsOf), result.steps.map(callsOf));
  assert.equal(text, result.text);
  assert.equal((await stream.totalUsage).outputTokens, result.totalUsage.outputTokens);
});

for (const toolChoice of ["required", { type: "tool", toolName: "get_weather" }, "none"]) {
  test(`tool choice ${JSON.stringify(toolChoice)}`, async () => {
    const { toolCalls } = await generateText({ ...ask, toolChoice });
    assert.equal(toolCalls.length > 0, toolChoice !== "none");
  });
}

const place = z.object({ city: z.enum(["Paris", "Rome"]), sunny: z.boolean() });

test("an object fits its schema, whole and streamed", async () => {
  const wanted = { model, temperature: 0, maxOutputTokens: 64, maxRetries: 0, schema: place, prompt: "Is Paris sunny?" };
  const { object } = await generateObject(wanted);
  place.parse(object);
  let last;
  for await (const partial of streamObject(wanted).partialObjectStream) last = partial;
  assert.deepEqual(last, object);
});

test("errors keep their status and are not repeated", async () => {
  await assert.rejects(generateText({ ...ask, model: tenon("nobody") }), (error) => error.statusCode === 404 && !error.isRetryable);
});
