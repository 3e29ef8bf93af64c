// random_answers FIRST COUNT: random answers, each one log of events, as the three encoders write
// them. test_encoders.py reads them by the clients' own SDKs. A line for each answer:
//
//   {"truth": {...}, "chat": {"stream", "whole"}, "responses": {...}, "messages": {...}}
//
// `truth` is what the log was made from, and not what anything here read in it. `stream` has the
// bytes of the event stream, `whole` the document; of an answer that fails it is null.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/chat_encode.h"
#include "tenon/api/messages_encode.h"
#include "tenon/api/responses_encode.h"
#include "tenon/json/value.h"

namespace {

using namespace tenon;
using json::Value;
using message::ChatEvent;
using message::Finish;
using message::FinishReason;

constexpr std::string_view kCustomTool = "run-sql";

// What text may hold that a wire, a decoder or a terminal may trip over.
constexpr std::string_view kTexts[] = {
    "a",
    " ",
    "The weather",
    "\n",
    "\r\n",
    "\r",
    "\n\ndata: [DONE]\n\n",
    "event: error\n",
    ": ",
    "\"",
    "\\",
    "\\u0000",
    "</tool_call>",
    "{\"a\": ",
    "\xc3\xa9",
    "\xe2\x80\xa8",  // line separator
    "\xc2\x85",      // next line
    "\xef\xbb\xbf",  // byte order mark
    "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
    "\xe0\xb9\x84\xe0\xb8\x97\xe0\xb8\xa2",
    "\xd8\xb9\xd8\xb1\xd8\xa8",
    "\xef\xbf\xbf",
    "\x01\x1f\x7f",
    std::string_view("\0", 1),
};

constexpr std::string_view kNumbers[] = {
    "0", "-0", "1.0", "0.1", "-17", "1e3", "1E-7", "1.5e300", "123456789012345678901234567890"};

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t most) { return random_() % most; }
  bool one_in(std::size_t odds) { return below(odds) == 0; }

  std::string text(std::size_t most_parts) {
    std::string out;
    for (std::size_t parts = below(most_parts + 1); parts > 0; --parts) {
      out += kTexts[below(std::size(kTexts))];
    }
    return out;
  }

  Value value(int depth) {
    switch (below(depth > 0 ? 7 : 5)) {
      case 0:
        return {};
      case 1:
        return one_in(2);
      case 2:
        return json::Number{std::string(kNumbers[below(std::size(kNumbers))])};
      case 3:
        return text(one_in(40) ? 3000 : 6);
      case 4:
        return "plain";
      case 5: {
        json::Array items;
        for (std::size_t count = below(4); count > 0; --count) items.push_back(value(depth - 1));
        return items;
      }
      default:
        return object(depth - 1);
    }
  }

  json::Object object(int depth) {
    json::Object out;
    for (std::size_t count = below(4); count > 0; --count) {
      out.set("k" + text(2), value(depth));
    }
    return out;
  }

  // The next piece of `text`, which is not empty, taken from it: whole characters.
  std::string piece(std::string& text, std::size_t most) {
    std::size_t size = std::min(text.size(), 1 + below(most));
    while (size < text.size() && is_inside(text[size])) ++size;
    std::string out = text.substr(0, size);
    text.erase(0, size);
    return out;
  }

  // `text` up to anywhere between two characters.
  std::string beginning(const std::string& text) {
    std::size_t size = below(text.size() + 1);
    while (size < text.size() && is_inside(text[size])) ++size;
    return text.substr(0, size);
  }

 private:
  static bool is_inside(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; }

  std::mt19937 random_;
};

struct Logged {
  ChatEvent event;
  std::vector<message::TokenLogprob> logprobs;
};

struct Log {
  std::vector<Logged> events;
  Finish finish;
  bool logprobs = false;
  json::Object truth;
};

// Makes one log, and beside it what it says: `parts` in the order in which they were written.
class Writer {
 public:
  explicit Writer(Dice& dice) : dice_(dice) {}

  Log log() {
    log_.logprobs = dice_.one_in(3);
    const std::size_t stretches = dice_.below(7);
    for (std::size_t left = stretches; left > 0 && !is_cut_; --left) stretch(left == 1);
    finish();
    return std::move(log_);
  }

 private:
  void stretch(bool is_last) {
    switch (dice_.below(5)) {
      case 0:
        return say("reasoning");
      case 1:
        return say("content");
      case 2:
        return add(message::Diagnostic{.code = "mended_arguments", .message = dice_.text(2)});
      default:
        return call(is_last);
    }
  }

  void say(std::string_view kind) {
    std::string said = dice_.text(dice_.one_in(20) ? 200 : 8);
    if (said.empty()) return;
    if (!parts_.empty() && *parts_.back().find("kind") == Value(kind)) {
      *parts_.back().find("text")->if_string() += said;
    } else {
      parts_.push_back(json::Object{{"kind", kind}, {"text", said}});
    }
    while (!said.empty()) {
      std::string piece = dice_.piece(said, 12);
      if (kind == "reasoning") {
        add(message::ReasoningDelta{std::move(piece)});
      } else {
        message::TokenLogprob token{.bytes = piece, .logprob = -0.5, .top = {{piece, -0.5}}};
        log_.events.push_back({message::ContentDelta{std::move(piece)}, {}});
        if (log_.logprobs) log_.events.back().logprobs.push_back(std::move(token));
      }
    }
  }

  void call(bool is_last) {
    const bool is_custom = dice_.one_in(4);
    const std::string id =
        "call_" + std::to_string(calls_) + "x" + std::to_string(dice_.below(1000));
    const std::string name =
        is_custom ? std::string(kCustomTool) : "f" + std::to_string(dice_.below(3));
    std::string arguments =
        is_custom ? message::arguments_of(dice_.text(8)) : json::to_string(dice_.object(3));
    is_cut_ = is_last && dice_.one_in(3);
    if (is_cut_) arguments = dice_.beginning(arguments);
    parts_.push_back(json::Object{{"kind", is_custom ? "custom" : "call"},
                                  {"id", id},
                                  {"name", name},
                                  {"text", arguments},
                                  {"is_cut", is_cut_}});
    add(message::CallBegin{calls_, id, name});
    while (!arguments.empty()) add(message::CallArguments{calls_, dice_.piece(arguments, 40)});
    add(message::CallEnd{calls_++, is_cut_});
  }

  void finish() {
    Finish& finish = log_.finish;
    const auto count = [&](std::size_t most) {
      return static_cast<std::uint32_t>(dice_.below(most + 1));
    };
    finish.usage.prompt_tokens = 1 + count(5000);
    finish.usage.cached_tokens = count(finish.usage.prompt_tokens);
    finish.usage.completion_tokens = count(5000);
    finish.usage.reasoning_tokens = count(finish.usage.completion_tokens);
    finish.guarantee =
        dice_.one_in(2) ? message::Guarantee::masked : message::Guarantee::unenforced;
    finish.reason = calls_ > 0 ? FinishReason::tool_calls : FinishReason::stop;
    if (is_cut_ || dice_.one_in(5)) finish.reason = FinishReason::length;
    if (finish.reason == FinishReason::stop && dice_.one_in(4))
      finish.stop_sequence = "END" + dice_.text(1);
    if (dice_.one_in(12)) {
      finish.reason = FinishReason::error;
      finish.error = {.code = Errc::unavailable, .message = "the engine is gone " + dice_.text(2)};
    }
    std::string error;
    if (finish.reason == FinishReason::error) error = api::from_engine(finish.error).message;
    json::Object usage{{"prompt", finish.usage.prompt_tokens},
                       {"cached", finish.usage.cached_tokens},
                       {"completion", finish.usage.completion_tokens},
                       {"reasoning", finish.usage.reasoning_tokens}};
    log_.truth = json::Object{{"parts", std::move(parts_)},
                              {"finish", message::finish_reason_name(finish.reason)},
                              {"stop_sequence", finish.stop_sequence},
                              {"error", error},
                              {"logprobs", log_.logprobs},
                              {"usage", std::move(usage)}};
  }

  void add(ChatEvent event) { log_.events.push_back({std::move(event), {}}); }

  Dice& dice_;
  Log log_;
  json::Array parts_;
  std::uint32_t calls_ = 0;
  bool is_cut_ = false;
};

/// As ChatAnswer does it, with an encoder for the stream and another one for the whole.
Value encoded(const Log& log, api::AnswerEncoder& streaming, api::AnswerEncoder& keeping) {
  std::string wire;
  streaming.begin(wire);
  std::size_t events = 0;
  for (const Logged& logged : log.events) {
    streaming.add(0, logged.event, logged.logprobs, wire);
    keeping.keep(0, logged.event, logged.logprobs);
    if (++events % 50 == 0) streaming.keep_alive(wire);
  }
  streaming.add(0, log.finish, {}, wire);
  keeping.keep(0, log.finish, {});
  if (log.finish.reason == FinishReason::error) {
    streaming.fail(api::from_engine(log.finish.error), wire);
    return json::Object{{"stream", wire}, {"whole", nullptr}};
  }
  streaming.end(log.finish.usage, wire);
  return json::Object{{"stream", wire}, {"whole", keeping.whole(log.finish.usage)}};
}

Value of_chat(const Log& log) {
  const auto encoder = [&] {
    api::ChatCompletionHead head{.id = "chatcmpl-1",
                                 .created = 5,
                                 .model = "m",
                                 .fingerprint = "fp",
                                 .format = "hermes",
                                 .custom_tools = {std::string(kCustomTool)},
                                 .usage_field = true};
    return api::ChatCompletionEncoder(std::move(head),
                                      {.include_usage = true, .logprobs = log.logprobs});
  };
  auto streaming = encoder();
  auto keeping = encoder();
  return encoded(log, streaming, keeping);
}

Value of_responses(const Log& log) {
  const auto encoder = [&] {
    return api::ResponsesEncoder({.id = "resp_1",
                                  .created_at = 5,
                                  .echo = json::Object{{"model", "m"},
                                                       {"parallel_tool_calls", true},
                                                       {"tool_choice", "auto"},
                                                       {"tools", json::Array()}},
                                  .format = "hermes",
                                  .custom_tools = {std::string(kCustomTool)},
                                  .logprobs = log.logprobs,
                                  .keep = {},
                                  .now = [] { return std::int64_t{7}; }});
  };
  auto streaming = encoder();
  auto keeping = encoder();
  return encoded(log, streaming, keeping);
}

Value of_messages(const Log& log) {
  const auto encoder = [] {
    return api::MessagesEncoder(
        {.id = "msg_1", .model = "m", .format = "hermes", .request_id = "req_1"});
  };
  auto streaming = encoder();
  auto keeping = encoder();
  return encoded(log, streaming, keeping);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: random_answers FIRST COUNT\n";
    return 2;
  }
  const unsigned long first = std::strtoul(argv[1], nullptr, 10);
  const unsigned long count = std::strtoul(argv[2], nullptr, 10);
  for (unsigned long seed = first; seed < first + count; ++seed) {
    Dice dice(static_cast<std::uint32_t>(seed));
    Log log = Writer(dice).log();
    const Value line = json::Object{{"truth", log.truth},
                                    {"chat", of_chat(log)},
                                    {"responses", of_responses(log)},
                                    {"messages", of_messages(log)}};
    std::cout << json::to_string(line) << '\n';
  }
  return std::cout.flush() ? 0 : 1;
}
