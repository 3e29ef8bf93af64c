// json::parse and json::append on a chat request of about 13 KB (10 tools, 25 messages) and on one
// streamed chunk, beside Boost.JSON and nlohmann in the same run; and the lexer alone.
#include <string>

#include <benchmark/benchmark.h>
#include <boost/json/src.hpp>
#include <nlohmann/json.hpp>

#include "tenon/json/lexer.h"
#include "tenon/json/value.h"

namespace {

namespace json = tenon::json;

json::Object tool(int number) {
  json::Object properties;
  for (const char* name : {"location", "unit", "days", "include_hourly", "language", "provider"}) {
    properties.set(name, json::Object{{"type", "string"},
                                      {"description",
                                       std::string("The ") + name +
                                           " of the request, as the user said it, or nothing"}});
  }
  properties.set("unit", json::Object{{"type", "string"},
                                      {"enum", json::Array{"celsius", "fahrenheit", "kelvin"}}});
  json::Object parameters{{"type", "object"},
                          {"properties", std::move(properties)},
                          {"required", json::Array{"location", "unit"}},
                          {"additionalProperties", false}};
  return {{"type", "function"},
          {"function",
           json::Object{{"name", "get_forecast_" + std::to_string(number)},
                        {"description", "Looks up the weather forecast for a place on the earth"},
                        {"parameters", std::move(parameters)},
                        {"strict", true}}}};
}

std::string chat_body() {
  json::Array messages;
  std::string system = "You are a helpful assistant.";
  for (int i = 0; i < 10; ++i) {
    system += "\nAnswer in the language of the question, and call a tool only if one is needed.";
  }
  messages.push_back(json::Object{{"role", "system"}, {"content", system}});
  for (int i = 0; i < 6; ++i) {
    const std::string id = "call_abcdefghijklmnop" + std::to_string(i);
    messages.push_back(json::Object{
        {"role", "user"},
        {"content",
         "What will the weather be like tomorrow in \"S\u00e3o Paulo\"?\nPlease answer in "
         "two sentences, and compare it with the day before."}});
    messages.push_back(json::Object{
        {"role", "assistant"},
        {"content", nullptr},
        {"tool_calls",
         json::Array{json::Object{
             {"id", id},
             {"type", "function"},
             {"function",
              json::Object{{"name", "get_forecast_1"},
                           {"arguments", R"({"location": "São Paulo", "unit": "celsius"})"}}}}}}});
    messages.push_back(
        json::Object{{"role", "tool"},
                     {"tool_call_id", id},
                     {"content", R"({"temperature": 23.5, "sky": "light clouds"})"}});
    messages.push_back(json::Object{
        {"role", "assistant"},
        {"content",
         "Tomorrow will be 23.5 degrees with light clouds; yesterday was a bit colder."}});
  }
  json::Array tools;
  for (int i = 0; i < 10; ++i) tools.push_back(tool(i));
  return json::to_string(json::Object{{"model", "tenon-tiny"},
                                      {"messages", std::move(messages)},
                                      {"tools", std::move(tools)},
                                      {"temperature", 0.7},
                                      {"max_tokens", 512},
                                      {"stream", true}});
}

const std::string& text_of(std::int64_t which) {
  static const std::string body = chat_body();
  static const std::string chunk =
      R"({"id":"chatcmpl-0123456789abcdefghijklmn","object":"chat.completion.chunk",)"
      R"("created":1700000000,"model":"tenon-tiny","choices":[{"index":0,"delta":{"content":)"
      R"(" weather"},"logprobs":null,"finish_reason":null}],"usage":null})";
  return which == 0 ? body : chunk;
}

void report(benchmark::State& state) {
  const std::string& text = text_of(state.range(0));
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
  state.SetLabel(std::to_string(text.size()) + " bytes");
}

void parse_tenon(benchmark::State& state) {
  const std::string& text = text_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(json::parse(text));
  report(state);
}

void parse_boost(benchmark::State& state) {
  const std::string& text = text_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(boost::json::parse(text));
  report(state);
}

void parse_nlohmann(benchmark::State& state) {
  const std::string& text = text_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(nlohmann::json::parse(text));
  report(state);
}

void write_tenon(benchmark::State& state) {
  const json::Value value = json::parse(text_of(state.range(0))).value();
  std::string out;
  for (auto _ : state) {
    out.clear();
    json::append(out, value);
    benchmark::DoNotOptimize(out.data());
  }
  report(state);
}

void write_tenon_as_python(benchmark::State& state) {
  const json::Value value = json::parse(text_of(state.range(0))).value();
  std::string out;
  for (auto _ : state) {
    out.clear();
    json::append_dumps(out, value);
    benchmark::DoNotOptimize(out.data());
  }
  report(state);
}

void write_boost(benchmark::State& state) {
  const boost::json::value value = boost::json::parse(text_of(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(boost::json::serialize(value));
  report(state);
}

void write_nlohmann(benchmark::State& state) {
  const nlohmann::json value = nlohmann::json::parse(text_of(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(value.dump());
  report(state);
}

void copy_tenon(benchmark::State& state) {
  const json::Value value = json::parse(text_of(state.range(0))).value();
  for (auto _ : state) {
    json::Value copy = value;
    benchmark::DoNotOptimize(copy);
  }
  report(state);
}

// As a stream parser does: four bytes a token.
void lex_by_four(benchmark::State& state) {
  const std::string& text = text_of(state.range(0));
  for (auto _ : state) {
    json::Lexer lexer;
    for (std::size_t at = 0; at < text.size(); at += 4) {
      benchmark::DoNotOptimize(lexer.feed(std::string_view(text).substr(at, 4)));
    }
  }
  report(state);
  state.counters["per_token"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>((text.size() + 3) / 4),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(parse_tenon)->DenseRange(0, 1);
BENCHMARK(parse_boost)->DenseRange(0, 1);
BENCHMARK(parse_nlohmann)->DenseRange(0, 1);
BENCHMARK(write_tenon)->DenseRange(0, 1);
BENCHMARK(write_tenon_as_python)->DenseRange(0, 1);
BENCHMARK(write_boost)->DenseRange(0, 1);
BENCHMARK(write_nlohmann)->DenseRange(0, 1);
BENCHMARK(copy_tenon)->DenseRange(0, 1);
BENCHMARK(lex_by_four)->DenseRange(0, 1);

}  // namespace
