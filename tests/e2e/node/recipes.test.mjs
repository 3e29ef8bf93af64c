// The pages of OpenAI's and Anthropic's SDKs, as they stand in docs/clients. TENON_URL names a running server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "../clients/recipe.mjs";

for (const page of ["openai.md", "anthropic.md"]) {
  test(page, async () => {
    const { answer } = await run(page, import.meta.url, ["answer"]);
    assert.ok(answer.length > 0);
  });
}
