#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/batch/line.h"
#include "tenon/capi/format.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/tools.h"
#include "tenon/capi/vocab.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/format.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/repair/rules.h"

// A parser's handle has the StreamParser and the events of its last call in the form of C, which
// are views of `said`. With a vocabulary it is fed by ids: the bytes, and whether a token is a
// control token, are looked up.

struct tenon_parser {
  tenon::format::StreamParser parser;
  std::shared_ptr<const tenon::capi::Vocabulary> vocabulary;  // null: none was given
  std::vector<std::int32_t> silent;  // tokens that end a turn and are not markers of the format
  std::vector<tenon::message::ChatEvent> said;
  std::vector<tenon_event> events;  // view the data in `said`
  bool is_finished = false;
};

namespace tenon::capi {
namespace {

using format::ParseOptions;
using vocab::TokenId;

// In the order of the words in tenon.h.
enum class UnknownTool : std::uint8_t { content, repair, forward };
constexpr std::string_view kUnknownTool[] = {"content", "repair", "forward"};

// Reads whether calls of unknown tools are accepted, and how: as content, as a call of the tool
// whose name is nearly the same (`repair`), or as they are.
Status take_unknown(const json::Object& members, ParseOptions& options) {
  const auto chosen = batch::chosen(members, "on_unknown_tool", kUnknownTool, 0);
  if (!chosen) return Unexpected(chosen.error());
  const auto what = static_cast<UnknownTool>(*chosen);
  if (what == UnknownTool::forward) options.any_tool = true;
  if (what == UnknownTool::repair) {
    options.corrected_name = [names = options.tools](const std::string& name) {
      const std::string* const meant = repair::misspelt(name, names);
      return meant != nullptr ? *meant : std::string();
    };
  }
  return {};
}

// Absent tools mean that any name is a tool; an empty list means that none is.
Status take_tools(const json::Object& members, ParseOptions& options) {
  const json::Value* const list = members.find("tools");
  options.any_tool = list == nullptr || list->is_null();  // the tools are not known
  if (options.any_tool) return {};
  const auto tools = tools_of(*list);
  if (!tools) return Unexpected(tools.error());
  for (const message::Tool& tool : *tools) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  return {};
}

struct Asked {
  ParseOptions parse;
  bool fallbacks = true;  // calls in forms of other formats are read, too
};

// The options of a parser, by the names of tenon.h. A member that is there and empty counts as
// given.
Expected<Asked> asked_in(tenon_text text) {
  const auto members = object_in(
      text, "options",
      {"tools", "fallbacks", "on_unknown_tool", "prompt_tail", "parse_reasoning", "id_prefix"});
  if (!members) return Unexpected(members.error());
  Asked asked;
  ParseOptions& options = asked.parse;
  if (const Status taken = take_tools(*members, options); !taken) return Unexpected(taken.error());
  if (const Status taken = take_unknown(*members, options); !taken) {
    return Unexpected(taken.error());
  }
  for (const auto& [name, member] : {std::pair("prompt_tail", &options.prompt_tail),
                                     std::pair("id_prefix", &options.id_prefix)}) {
    auto given = string_member(*members, name);
    if (!given) return Unexpected(given.error());
    if (members->contains(name)) *member = *std::move(given);
  }
  for (const auto& [name, member] : {std::pair("fallbacks", &asked.fallbacks),
                                     std::pair("parse_reasoning", &options.parse_reasoning)}) {
    const auto given = batch::flag(*members, name, *member);
    if (!given) return Unexpected(given.error());
    *member = *given;
  }
  return asked;
}

// Finds the markers that are control tokens, and the ends of turns that are not markers. The parser
// must see the marker as a control token: the same text, spelled by text tokens, is content. Other
// ends of a turn are not fed to the parser.
std::vector<TokenId> take_vocabulary(const Vocabulary& vocabulary, const format::Format& format,
                                     ParseOptions& options) {
  const std::vector<std::string> markers = format::markers(format);
  for (const std::string& marker : markers) {
    if (vocabulary.tokenizer().control_token(marker)) options.control_markers.push_back(marker);
  }
  std::vector<TokenId> silent;
  for (const TokenId end : vocabulary.tokens().ends()) {
    const std::string_view name = vocabulary.tokens().bytes(end);
    if (std::ranges::find(markers, name) == markers.end()) silent.push_back(end);
  }
  return silent;
}

// Passes on the new events, in an array that a later call reuses.
void tell(tenon_parser& parser, const tenon_event** events, std::size_t* count) {
  for (const message::ChatEvent& event : parser.said) parser.events.push_back(event_of(event));
  *events = parser.events.data();
  *count = parser.events.size();
}

// The frame of all functions that feed: events of the call before are dropped, and the new ones
// live until the next call.
template <class Feed>
tenon_error* fed(tenon_parser* parser, const tenon_event** events, std::size_t* count,
                 Feed feed) noexcept {
  clear(events);
  clear(count);
  return guarded({{parser, "parser"}, {events, "events"}, {count, "count"}}, [&]() -> Status {
    parser->events.clear();
    parser->said.clear();
    if (parser->is_finished) {
      return Unexpected(Error{Errc::invalid, "the output has been finished: reset the parser"});
    }
    if (Status done = feed(); !done) return done;
    tell(*parser, events, count);
    return {};
  });
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace format = tenon::format;
using tenon::Errc;
using tenon::Error;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_parser_new(const tenon_format* own, const tenon_vocab* vocab, tenon_text options,
                              tenon_parser** parser) {
  capi::clear(parser);
  return capi::guarded({{own, "format"}, {parser, "parser"}}, [&]() -> Status {
    auto asked = capi::asked_in(options);
    if (!asked) return Unexpected(asked.error());
    auto format = format::with_fallbacks(
        *own->format, asked->fallbacks ? format::Fallbacks::all : format::Fallbacks::none);
    std::vector<std::int32_t> silent;
    if (vocab != nullptr) {
      silent = capi::take_vocabulary(*vocab->vocabulary, *format, asked->parse);
    }
    *parser =
        new tenon_parser{.parser = format::StreamParser(std::move(format), std::move(asked->parse)),
                         .vocabulary = vocab == nullptr ? nullptr : vocab->vocabulary,
                         .silent = std::move(silent)};
    return {};
  });
}

void tenon_parser_free(tenon_parser* parser) {
  delete parser;
}

tenon_error* tenon_parser_feed(tenon_parser* parser, tenon_text bytes, int is_control,
                               const tenon_event** events, size_t* count) {
  return capi::fed(parser, events, count, [&]() -> Status {
    parser->parser.feed(capi::view(bytes), is_control != 0, parser->said);
    return {};
  });
}

tenon_error* tenon_parser_feed_token(tenon_parser* parser, int32_t token,
                                     const tenon_event** events, size_t* count) {
  return capi::fed(parser, events, count, [&]() -> Status {
    if (parser->vocabulary == nullptr) {
      return Unexpected(
          Error{Errc::invalid, "the parser was made without a vocabulary: feed bytes"});
    }
    const capi::Vocabulary& vocabulary = *parser->vocabulary;
    if (!vocabulary.has(token)) {
      return Unexpected(
          Error{Errc::invalid, "the token " + std::to_string(token) + " is not in the vocabulary"});
    }
    if (std::ranges::find(parser->silent, token) != parser->silent.end()) return {};
    const bool is_control = vocabulary.tokens().kind(token) == tenon::vocab::Token::Kind::control;
    parser->parser.feed(vocabulary.tokens().bytes(token), is_control, parser->said);
    return {};
  });
}

// Finished even if the call below fails: what came of it is not known.
tenon_error* tenon_parser_finish(tenon_parser* parser, int is_truncated, const tenon_event** events,
                                 size_t* count) {
  return capi::fed(parser, events, count, [&]() -> Status {
    parser->is_finished = true;
    parser->parser.finish(is_truncated != 0, parser->said);
    return {};
  });
}

// Without memory the parser stays finished, and refuses what comes.
void tenon_parser_reset(tenon_parser* parser) {
  if (parser == nullptr) return;
  parser->is_finished = !capi::guarded_or(false, [&] {
    parser->parser.reset();
    return true;
  });
}
