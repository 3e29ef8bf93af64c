#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/format.h"
#include "tenon/format/stream_parser.h"
#include "tenon/message/event.h"

/// What the tests of the stream parser share: the outcome of a text, however it is cut.
namespace tenon::format {

using Calls = std::vector<std::pair<std::string, std::string>>;  // (name, arguments)

struct Outcome {
  std::string content;
  std::string reasoning;
  Calls calls;
  std::vector<bool> incomplete;
  std::vector<std::string> codes;  // of diagnostics
  bool operator==(const Outcome&) const = default;
};

inline void PrintTo(const Outcome& outcome, std::ostream* os) {
  *os << "content " << ::testing::PrintToString(outcome.content) << " reasoning "
      << ::testing::PrintToString(outcome.reasoning) << " calls "
      << ::testing::PrintToString(outcome.calls) << " incomplete "
      << ::testing::PrintToString(outcome.incomplete) << " codes "
      << ::testing::PrintToString(outcome.codes);
}

inline Outcome outcome_of(const std::vector<message::ChatEvent>& events) {
  message::Fold fold;
  for (const message::ChatEvent& event : events) fold.add(event);
  Outcome outcome{fold.message().text(), fold.message().reasoning, {}, fold.incomplete(), {}};
  for (const auto& call : fold.message().tool_calls)
    outcome.calls.emplace_back(call.name, call.arguments);
  for (const auto& diagnostic : fold.diagnostics()) outcome.codes.push_back(diagnostic.code);
  return outcome;
}

inline std::vector<message::ChatEvent> events_of(StreamParser& parser, std::string_view text,
                                                 std::size_t chunk, bool truncated = false) {
  std::vector<message::ChatEvent> events;
  for (std::size_t at = 0; at < text.size(); at += chunk) {
    parser.feed(text.substr(at, chunk), false, events);
  }
  parser.finish(truncated, events);
  return events;
}

/// The outcome of the text cut at these places, which are in order.
inline Outcome outcome_at_cuts(StreamParser& parser, std::string_view text,
                               const std::vector<std::size_t>& cuts, bool truncated) {
  parser.reset();
  std::vector<message::ChatEvent> events;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    parser.feed(text.substr(begin, cut - begin), false, events);
    begin = cut;
  }
  parser.feed(text.substr(begin), false, events);
  parser.finish(truncated, events);
  return outcome_of(events);
}

/// The outcome of the whole text, after checking that every cut in two and every piece size gives
/// the same.
inline Outcome parse(const std::shared_ptr<const Format>& format, std::string_view text,
                     const ParseOptions& options, bool truncated = false) {
  StreamParser parser(format, options);
  const Outcome whole = outcome_of(events_of(parser, text, text.size() + 1, truncated));
  for (std::size_t chunk = 1; chunk <= 5; ++chunk) {
    parser.reset();
    EXPECT_EQ(outcome_of(events_of(parser, text, chunk, truncated)), whole)
        << "pieces of " << chunk << " bytes of " << text;
  }
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    const Outcome outcome = outcome_at_cuts(parser, text, {cut}, truncated);
    EXPECT_EQ(outcome, whole) << "cut at " << cut << " of " << text;
    if (outcome != whole) break;
  }
  return whole;
}

}  // namespace tenon::format
