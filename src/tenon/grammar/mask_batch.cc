#include "tenon/grammar/mask_batch.h"

#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/grammar/json_frames.h"
#include "tenon/grammar/matcher.h"
#include "tenon/json/lines.h"
#include "tenon/schema/schema.h"
#include "tenon/schema/validate_batch.h"

namespace tenon::grammar {

using vocab::TokenId;

namespace {

Error invalid(std::string_view member, std::string_view what) {
  return {Errc::invalid, std::string(member) + ": " + std::string(what)};
}

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// One of several words, the first where there is none.
Expected<std::size_t> choice(const json::Object& request, std::string_view member,
                             std::span<const std::string_view> words) {
  const json::Value* const value = request.find(member);
  if (value == nullptr) return 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (value->if_string() != nullptr && *value->if_string() == words[i]) return i;
  }
  std::string list;
  for (const std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return Unexpected(invalid(member, "must be one of " + list));
}

Expected<JsonOptions> json_options(const json::Object& request) {
  using Whitespace = JsonOptions::Whitespace;
  constexpr std::string_view kWhitespace[] = {"any", "spaced", "compact"};
  constexpr Whitespace kWhitespaces[] = {Whitespace::any, Whitespace::spaced, Whitespace::compact};
  constexpr std::string_view kOrders[] = {"any", "schema"};
  const auto whitespace = choice(request, "whitespace", kWhitespace);
  if (!whitespace) return Unexpected(whitespace.error());
  const auto order = choice(request, "property_order", kOrders);
  if (!order) return Unexpected(order.error());
  return JsonOptions{.property_order = *order == 0 ? JsonOptions::PropertyOrder::any
                                                   : JsonOptions::PropertyOrder::schema,
                     .whitespace = kWhitespaces[*whitespace]};
}

Expected<std::shared_ptr<Grammar>> grammar_of(const json::Object& request,
                                              const std::shared_ptr<VocabIndex>& index) {
  const json::Value* const source = request.find("schema");
  if (source == nullptr) return Unexpected(invalid("schema", "is missing"));
  const auto compile_options = schema::compile_options_of(request);
  if (!compile_options) return Unexpected(compile_options.error());
  const auto options = json_options(request);
  if (!options) return Unexpected(options.error());
  auto schema = schema::Schema::compile(*source, *compile_options);
  if (!schema) return Unexpected(schema.error());
  auto machine = std::make_unique<Machine>();
  const auto root = add_json(*machine, std::move(*schema), *options);
  if (!root) return Unexpected(root.error());
  return Grammar::make(std::move(machine), *root, index);
}

bool has_bit(std::span<const std::uint32_t> mask, TokenId token) {
  const auto id = static_cast<std::uint32_t>(token);
  return (mask[id / 32] >> id % 32 & 1U) != 0;
}

}  // namespace

Expected<json::Object> MaskBatch::answer(const json::Object& request) {
  static const json::Array kNoTests;
  const json::Array* tests = &kNoTests;
  if (const json::Value* member = request.find("tests")) {
    tests = member->if_array();
    if (tests == nullptr) return Unexpected(invalid("tests", "must be an array"));
  }
  std::vector<std::vector<TokenId>> texts;
  for (const json::Value& test : *tests) {
    const json::Value* const text = test.find("text");
    if (text == nullptr || text->if_string() == nullptr) {
      return Unexpected(invalid("tests", "each must have the string text"));
    }
    const Status encoded =
        tokenizer_->encode(*text->if_string(), vocab::Controls::off, true, texts.emplace_back());
    if (!encoded) return Unexpected(encoded.error());
  }

  const double begun = cpu_us();
  const auto grammar = grammar_of(request, index_);
  if (!grammar) return Unexpected(grammar.error());
  const double compiled = cpu_us();
  std::vector<std::uint32_t> mask(mask_words(index_->vocab().size()));
  if (const Status filled = Matcher(*grammar).fill_mask(mask); !filled) {
    return Unexpected(filled.error());
  }
  const double first = cpu_us();

  json::Array verdicts;
  json::Array mask_us;
  for (std::vector<TokenId>& text : texts) {
    Matcher matcher(*grammar);
    std::int64_t at = 0;
    bool accepted = true;
    if (!index_->vocab().ends().empty()) text.push_back(index_->vocab().ends()[0]);
    for (const TokenId token : text) {
      const double before = cpu_us();
      if (const Status filled = matcher.fill_mask(mask); !filled) return Unexpected(filled.error());
      mask_us.emplace_back(cpu_us() - before);
      accepted = has_bit(mask, token);
      if (!accepted || !matcher.accept(token)) break;
      at += static_cast<std::int64_t>(index_->vocab().bytes(token).size());
    }
    json::Object verdict{{"accepted", accepted}};
    if (!accepted) verdict["at"] = at;
    verdicts.emplace_back(std::move(verdict));
  }
  json::Object answer;
  answer["compile_us"] = compiled - begun;
  answer["first_mask_us"] = first - compiled;
  answer["tests"] = std::move(verdicts);
  answer["mask_us"] = std::move(mask_us);
  return answer;
}

int MaskBatch::run(std::istream& in, std::ostream& out) {
  json::answer_lines(in, out, [this](const json::Object& request) { return answer(request); });
  return 0;
}

}  // namespace tenon::grammar
