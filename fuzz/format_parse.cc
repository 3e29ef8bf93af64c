// Any text, in every format: the message is the same however the text is cut, the arguments of
// calls that were not cut off are JSON, and text without calls or reasoning is content to the byte.
// The first byte chooses the format and whether the text is the end of a token limit.
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"

#include "tenon/base/utf8.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"

using tenon::fuzz::promise;
namespace format = tenon::format;
namespace message = tenon::message;

namespace {

message::Fold folded(const std::vector<message::ChatEvent>& events) {
  message::Fold fold;
  for (const auto& event : events) fold.add(event);
  return fold;
}

bool same(const message::Fold& a, const message::Fold& b) {
  const auto& calls = a.message().tool_calls;
  const auto& others = b.message().tool_calls;
  if (calls.size() != others.size()) return false;
  for (std::size_t i = 0; i < calls.size(); ++i) {  // ids are random
    if (calls[i].name != others[i].name || calls[i].arguments != others[i].arguments) return false;
  }
  return a.message().content == b.message().content &&
         a.message().reasoning == b.message().reasoning && a.incomplete() == b.incomplete() &&
         a.diagnostics() == b.diagnostics();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto formats = format::all();
  if (size == 0) return 0;
  const std::string_view text = tenon::fuzz::text_of(data + 1, size - 1);
  const auto& chosen = formats[(data[0] / 2) % formats.size()];
  const bool truncated = data[0] % 2 == 1;
  format::StreamParser parser(chosen, {.tools = {"get_weather", "f"}});

  std::vector<message::ChatEvent> events;
  parser.feed(text, false, events);
  parser.finish(truncated, events);
  const message::Fold whole = folded(events);
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    parser.reset();
    events.clear();
    tenon::fuzz::in_pieces(text, seed,
                           [&](std::string_view piece) { parser.feed(piece, false, events); });
    parser.finish(truncated, events);
    promise(same(folded(events), whole), "every cut gives the same message");
  }
  const auto& calls = whole.message().tool_calls;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    promise((truncated && whole.incomplete()[i]) || tenon::json::parse(calls[i].arguments),
            "arguments are JSON");
  }
  const auto& content = whole.message().content;
  promise(!content || tenon::utf8::is_valid(*content), "content is UTF-8");

  format::StreamParser plain(chosen, {.parse_reasoning = false});
  events.clear();
  plain.feed(text, false, events);
  plain.finish(truncated, events);
  promise(folded(events).message().tool_calls.empty(), "without tools there are no calls");
  return 0;
}
