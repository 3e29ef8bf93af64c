#include "tenon/chat/call_opening.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tenon/format/render.h"

namespace tenon::chat {
namespace {

using OpeningIds = std::vector<vocab::TokenId>;

// The tokens of a whole call in this format; empty if the format cannot write one.
Expected<OpeningIds> tokens_of_call(const format::Format& format, const vocab::Tokenizer& tokenizer,
                                    std::string_view name, std::string_view arguments) {
  const message::ToolCall call{
      .id = "call000000", .name = std::string(name), .arguments = std::string(arguments)};
  const auto text = format::render_calls(format, {call});
  if (!text) return OpeningIds{};
  OpeningIds ids;
  // The name is the client's, but the API admits no name that could spell a control token.
  Status done = tokenizer.encode(*text, vocab::Controls::on, /*at_start=*/false, ids);
  if (!done) return Unexpected(std::move(done.error()));
  return ids;
}

bool spells(const OpeningIds& ids, const vocab::Tokenizer& tokenizer, std::string_view name) {
  std::string text;
  for (const vocab::TokenId id : ids) text += tokenizer.bytes(id);
  return text.find(name) != std::string::npos;
}

}  // namespace

// Writes two calls that differ where the model has to choose, and keeps the tokens that both begin
// with. So no token is cut within which the model would have gone on.
Expected<OpeningIds> call_opening(const format::Format& format, const vocab::Tokenizer& tokenizer,
                                  std::string_view name) {
  const bool is_named = !name.empty();
  const auto one = tokens_of_call(format, tokenizer, is_named ? name : "a", "{}");
  if (!one) return one;
  const auto other =
      tokens_of_call(format, tokenizer, is_named ? name : "b", is_named ? R"({"a": 1})" : "{}");
  if (!other) return other;
  const auto [end, unused] = std::mismatch(one->begin(), one->end(), other->begin(), other->end());
  OpeningIds common(one->begin(), end);
  // Without the whole name the tokens could begin another call.
  if (is_named && !spells(common, tokenizer, name)) common.clear();
  return common;
}

}  // namespace tenon::chat
