"""The pages of OpenAI's and Anthropic's SDKs; test_tool_calling.py and test_messages.py go through the SDKs themselves."""
import recipe

openai = recipe.run("openai.md", url=recipe.SCRIPTED)
assert openai["asked"].tool_calls and openai["arguments"]["location"] and openai["answer"]
anthropic = recipe.run("anthropic.md", url=recipe.SCRIPTED)
assert anthropic["asked"].stop_reason == "tool_use" and anthropic["results"] and anthropic["answer"]
