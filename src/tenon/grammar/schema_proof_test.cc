// Masks allow exactly what the schema allows: random texts against the validator.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/random_json.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {
namespace {

using Whitespace = JsonOptions::Whitespace;

// The verdict on a text does not depend on the vocabulary, so this is the smallest.
const std::shared_ptr<VocabIndex>& schema_bytes_index() {
  static const auto index = [] {
    std::vector<vocab::Token> tokens(256);
    for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
    return std::make_shared<VocabIndex>(*vocab::Vocab::make(std::move(tokens), {}));
  }();
  return index;
}

Expected<std::shared_ptr<Grammar>> schema_grammar_of(
    const std::shared_ptr<const schema::Schema>& schema, const JsonOptions& options) {
  return Grammar::make([=](Machine& machine) { return add_json(machine, schema, options); },
                       schema_bytes_index());
}

std::string text_of(const json::Value& value, Whitespace whitespace) {
  json::DumpsOptions options{.ensure_ascii = false};
  if (whitespace == Whitespace::compact) {
    options.item_separator = ",";
    options.key_separator = ":";
  }
  if (whitespace == Whitespace::any) options.indent = 2;
  return json::dumps(value, options);
}

// Every instance is accepted exactly if it is valid, with every kind of whitespace.
TEST(SchemaProof, TextsAreAcceptedIfTheyAreValid) {
  constexpr Whitespace kWhitespaces[] = {Whitespace::any, Whitespace::spaced, Whitespace::compact};
  std::size_t compiled = 0;
  std::size_t valid_texts = 0;
  const std::uint32_t count = is_long_test() ? 8000 : 300;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    RandomJson random(seed);
    const json::Value source = random.schema();
    const auto schema = schema::Schema::compile(source);
    ASSERT_TRUE(schema) << json::to_string(source) << ": " << schema.error().message;
    const Whitespace whitespace = kWhitespaces[seed % std::size(kWhitespaces)];
    const auto grammar = schema_grammar_of(*schema, {.whitespace = whitespace});
    const bool is_refused = !grammar && grammar.error().code != Errc::unsatisfiable;
    if (is_refused) {
      EXPECT_EQ(grammar.error().code, Errc::unsupported)
          << json::to_string(source) << ": " << grammar.error().message;
      continue;
    }
    ++compiled;
    json::Value instance = random.instance();
    for (int i = 0; i < 40; ++i) {
      json::Value next = random.one_in(4) ? random.instance() : random.mutated(instance);
      const std::string text = text_of(next, whitespace);
      const auto is_valid = (*schema)->is_valid(next);
      ASSERT_TRUE(is_valid) << is_valid.error().message;
      bool is_accepted = false;
      if (grammar) {
        Matcher matcher(*grammar);
        is_accepted = matcher.accept_bytes(text) && matcher.is_accepting();
      }
      EXPECT_EQ(is_accepted, *is_valid)
          << "seed " << seed << ", schema " << json::to_string(source) << ", text " << text
          << (grammar ? "" : ", " + grammar.error().message);
      note_verdict(source, text, is_accepted);
      if (*is_valid) {
        ++valid_texts;
        instance = std::move(next);
      }
    }
  }
  EXPECT_GE(compiled * 100, std::size_t{count} * 95);  // few schemas are refused
  EXPECT_GE(valid_texts, std::size_t{count} * 10);     // of 40 each
}

}  // namespace
}  // namespace tenon::grammar
