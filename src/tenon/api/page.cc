#include "tenon/api/page.h"

namespace tenon::api {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tenon</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.5 ui-monospace, monospace; background: #8881; border-radius: 4px; }
code { padding: 0 .3em; } pre { padding: 1em; overflow-x: auto; }
td, th { text-align: left; padding: .2em 1.5em .2em 0; }
</style></head><body>
)";

constexpr std::string_view kExample =
    R"(/v1/chat/completions -H 'content-type: application/json' -d '{
  "model": "MODEL",
  "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
  "tools": [{"type": "function", "function": {"name": "get_weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}},
                   "required": ["location"]}}}]
}')";

std::string example(std::string_view base_url, const chat::ModelRegistry& models) {
  std::string text = "curl " + std::string(base_url) + std::string(kExample);
  const auto entries = models.entries();
  const std::string model = entries.empty() ? "NAME" : entries[0].name;
  constexpr std::string_view kPlace = "MODEL";
  return text.replace(text.find(kPlace), kPlace.size(), model);
}

}  // namespace

std::string start_page(std::string_view base_url, std::string_view version,
                       const chat::ModelRegistry& models) {
  std::string page(kHead);
  page += "<h1>Tenon " + escaped(version) + "</h1>\n";
  page += "<p>An OpenAI-compatible server for models that call functions. Base URL: <code>" +
          escaped(base_url) + "/v1</code></p>\n";
  page += "<table><tr><th>model</th><th>tool-call format</th><th>context</th></tr>\n";
  for (const auto& entry : models.entries()) {
    page += "<tr><td><code>" + escaped(entry.name) + "</code></td><td>";
    if (!entry.loaded) {
      page += "</td><td>loaded on first use</td></tr>\n";
      continue;
    }
    page += (entry.loaded->format.empty() ? "none" : escaped(entry.loaded->format)) + "</td><td>" +
            std::to_string(entry.loaded->engine.context_tokens) + " tokens</td></tr>\n";
  }
  page += "</table>\n<h2>Try it</h2>\n<pre>" + escaped(example(base_url, models)) + "</pre>\n";
  page += "<pre>from openai import OpenAI\nclient = OpenAI(base_url=\"" + escaped(base_url) +
          "/v1\", api_key=\"none\")</pre>\n";
  page +=
      "<p><a href=\"/v1/models\">/v1/models</a> · <a href=\"/health\">/health</a> · "
      "<a href=\"/metrics\">/metrics</a> · <a href=\"/version\">/version</a> · "
      "<a href=\"/openapi.json\">/openapi.json</a></p>\n</body></html>\n";
  return page;
}

}  // namespace tenon::api
