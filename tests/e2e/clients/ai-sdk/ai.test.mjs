// The Vercel AI SDK: the page's loop, the same as a stream, and objects. TENON_URL names the bundled model's server, for what an answer is
// held to, TENON_SCRIPTED one whose model is played, for what a model has to choose by itself.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamObject, streamText } from "ai";
import { z } from "zod";
import { run } from "../recipe.mjs";

const names = ["tenon", "getWeather", "result"];
const { tenon, getWeather, result } = await run("ai-sdk.md", import.meta.url, names, process.env.TENON_SCRIPTED);
const model = tenon("tenon-tiny");
const bundled = createOpenAICompatible({
  name: "tenon", baseURL: `${process.env.TENON_URL}/v1`, includeUsage: true, supportsStructuredOutputs: true,
})("tenon-tiny");
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
  assert.match(result.text, /cloudy/);
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
    const { toolCalls } = await generateText({ ...ask, model: bundled, toolChoice });
    assert.equal(toolCalls.length > 0, toolChoice !== "none");
  });
}

const place = z.object({ city: z.enum(["Paris", "Rome"]), sunny: z.boolean() });

test("an object fits its schema, whole and streamed", async () => {
  const wanted = { model: bundled, temperature: 0, maxOutputTokens: 64, maxRetries: 0, schema: place, prompt: "Is Paris sunny?" };
  await generateObject(wanted); // what follows finds its prompt in the cache (tools.settled)
  const { object } = await generateObject(wanted);
  place.parse(object);
  let last;
  for await (const partial of streamObject(wanted).partialObjectStream) last = partial;
  assert.deepEqual(last, object);
});

test("errors keep their status and are not repeated", async () => {
  await assert.rejects(generateText({ ...ask, model: tenon("nosuch") }), (error) => error.statusCode === 404 && !error.isRetryable);
});
