// A generator that chooses only what masks allow comes to an end, and to a valid one, whatever it
// chooses.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/long_for_test.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/random_json.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {
namespace {

using json::Value;

const std::shared_ptr<VocabIndex>& dead_end_bytes_index() {
  static const auto index = [] {
    std::vector<vocab::Token> tokens(256);
    for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
    return std::make_shared<VocabIndex>(*vocab::Vocab::make(std::move(tokens), {}));
  }();
  return index;
}

Expected<std::shared_ptr<Grammar>> dead_end_grammar_of(
    const std::shared_ptr<const schema::Schema>& schema, const JsonOptions& options) {
  return Grammar::make([=](Machine& machine) { return add_json(machine, schema, options); },
                       dead_end_bytes_index());
}

// Schemas with few values, so that a text soon has few continuations.
class TightSchemas {
 public:
  explicit TightSchemas(RandomJson& random) : random_(random) {}

  Value array() {
    json::Object made{{"type", "array"}, {"uniqueItems", true}};
    if (one_in(2)) {
      json::Array prefix(1 + pick(3));
      for (Value& each : prefix) each = item(2);
      made["prefixItems"] = std::move(prefix);
    }
    if (one_in(6)) {
      made["items"] = false;
    } else {
      made["items"] = item(2);
    }
    if (!one_in(3)) made["minItems"] = pick(5);
    if (one_in(2)) made["maxItems"] = 1 + pick(5);
    return made;
  }

  Value item(int depth) {
    depth = std::max(depth, 0);
    if (depth > 0 && one_in(2)) return one_in(2) ? inner_array(depth) : object(depth);
    return parsed(kLeaves[pick(std::size(kLeaves))]);
  }

  Value object(int depth) {
    static constexpr std::string_view kNames[] = {"a", "b", "ab"};
    json::Object members;
    json::Array required;
    for (const std::string_view name : kNames) {
      if (one_in(2)) continue;
      members[name] = item(depth - 1);
      if (one_in(2)) required.emplace_back(name);
    }
    json::Object made{{"type", "object"}, {"properties", std::move(members)}};
    if (!required.empty()) made["required"] = std::move(required);
    if (one_in(6)) {
      made["patternProperties"] = json::Object{{"^[xy]$", item(depth - 1)}};
    }
    if (!one_in(4)) {
      made["additionalProperties"] = false;
    } else if (one_in(2)) {
      made["additionalProperties"] = item(depth - 1);
    }
    if (one_in(4)) made["minProperties"] = pick(3);
    if (one_in(4)) made["maxProperties"] = 1 + pick(2);
    return made;
  }

  // Values that fit one branch of each of several unions, whose product is large.
  Value product() {
    static constexpr std::string_view kNumbers[] = {
        R"({"multipleOf": 4})",
        R"({"multipleOf": 33})",
        R"({"multipleOf": 2.5})",
        R"({"not": {"multipleOf": 3}})",
        R"({"not": {"multipleOf": 2}})",
        R"({"multipleOf": 101})",
        R"({"minimum": -5})",
        R"({"maximum": 12})",
        R"({"enum": [3, 5.5, 72]})",
        R"({"type": "integer", "exclusiveMinimum": 70})",
        R"({"multipleOf": 7, "not": {"multipleOf": 2}})",
    };
    static constexpr std::string_view kObjects[] = {
        R"({"required": ["a"]})",
        R"({"required": ["b"]})",
        R"({"required": ["c", "ab"]})",
        R"({"required": ["d"]})",
        R"({"not": {"required": ["a"]}})",
        R"({"properties": {"a": {"const": 1}}, "required": ["a"]})",
        R"({"properties": {"b": {"type": "string"}}})",
        R"({"properties": {"ab": {"enum": [1, "x"]}, "d": {"const": "x"}}, "required": ["d"]})",
        R"({"minProperties": 3})",
        R"({"maxProperties": 2})",
    };
    static constexpr std::string_view kArrays[] = {
        R"({"contains": {"const": 1}})",
        R"({"contains": {"const": "a"}})",
        R"({"minItems": 3})",
        R"({"maxItems": 2})",
        R"({"items": {"enum": [1, 2, "a"]}})",
        R"({"prefixItems": [{"const": 2}]})",
        R"({"not": {"contains": {"const": 2}}})",
        R"({"uniqueItems": true})",
    };
    switch (pick(3)) {
      case 0:
        return product_of(kNumbers, R"({"type": "number", "minimum": -300, "maximum": 80})");
      case 1:
        return product_of(kObjects, R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
                                        "additionalProperties": {"enum": [1, "x"]}})");
      default:
        return product_of(kArrays, R"({"type": "array", "items": {"enum": [1, 2, "a", "b"]}})");
    }
  }

  // Any keywords that concern several values at once.
  Value mixed(int depth) {
    json::Object made;
    if (one_in(2)) {
      made = *(one_in(2) ? array_of(depth) : object(depth)).if_object();
    } else {
      made = *item(depth).if_object();
    }
    const auto inner = [&] { return depth == 0 ? item(0) : mixed(depth - 1); };
    for (std::size_t i = pick(3); i > 0; --i) {
      switch (pick(12)) {
        case 0:
          made["contains"] = item(depth - 1);
          if (one_in(2)) made["minContains"] = pick(3);
          if (one_in(2)) made["maxContains"] = 1 + pick(2);
          break;
        case 1:
          made["dependentRequired"] = json::Object{{one_in(2) ? "a" : "b", json::Array{"ab"}}};
          break;
        case 2:
          made["dependentSchemas"] = json::Object{{one_in(2) ? "a" : "b", object(depth)}};
          break;
        case 3:
          made["propertyNames"] = one_in(2) ? parsed(R"({"pattern": "^[abx]$"})")
                                            : parsed(R"({"enum": ["a", "x", "y"]})");
          break;
        case 4:
          made["not"] = inner();
          break;
        case 5:
          made["if"] = inner();
          made["then"] = inner();
          if (one_in(2)) made["else"] = inner();
          break;
        case 6:
          made["oneOf"] = json::Array{inner(), inner()};
          break;
        case 7:
          made["anyOf"] = json::Array{inner(), inner()};
          break;
        case 8:
          made["allOf"] = json::Array{inner()};
          break;
        case 9:
          made["unevaluatedItems"] = one_in(2) ? Value(false) : item(depth - 1);
          break;
        case 10:
          made["unevaluatedProperties"] = one_in(2) ? Value(false) : item(depth - 1);
          break;
        default:
          made["uniqueItems"] = true;
      }
    }
    return made;
  }

 private:
  static constexpr std::string_view kLeaves[] = {
      R"({"enum": ["a", "b", 1, null]})",
      R"({"enum": [[1], {"a": 1}, "a", [], {}]})",
      R"({"const": "a"})",
      R"({"enum": [1, 1.5, 2]})",
      R"({"type": "string", "pattern": "^[ab]{2}$"})",
      R"({"type": "string", "pattern": "^(a|ab|b)$"})",
      R"({"type": "string", "pattern": "^[ab]*$", "maxLength": 1})",
      R"({"type": "string", "enum": ["x", "xy", "y"]})",
      R"({"type": "integer", "minimum": 0, "maximum": 2})",
      R"({"type": "integer", "minimum": 9})",
      R"({"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5})",
      R"({"type": "boolean"})",
      R"({"type": ["boolean", "null"]})",
      R"({"type": "integer"})",
      R"({"type": "string"})",
      R"({"type": ["string", "null"], "maxLength": 1, "pattern": "^[ab]?$"})",
  };

  Value product_of(std::span<const std::string_view> branches, std::string_view around) {
    json::Array factors(2 + pick(4));
    for (Value& factor : factors) {
      json::Array chosen(2 + pick(4));
      for (Value& branch : chosen) branch = parsed(branches[pick(branches.size())]);
      factor = json::Object{{"anyOf", std::move(chosen)}};
    }
    Value made = one_in(4) ? Value(json::Object{}) : parsed(around);
    (*made.if_object())["allOf"] = std::move(factors);
    return made;
  }
  static Value parsed(std::string_view text) { return *json::parse(text); }
  std::size_t pick(std::size_t count) { return random_.pick(count); }
  bool one_in(std::size_t count) { return random_.one_in(count); }

  Value array_of(int depth) {
    Value made = array();
    if (one_in(2)) made.if_object()->erase("uniqueItems");
    if (one_in(2)) (*made.if_object())["items"] = item(depth);
    return made;
  }

  Value inner_array(int depth) {
    json::Object made{{"type", "array"}, {"items", item(depth - 1)}};
    if (one_in(3)) made["prefixItems"] = json::Array{item(depth - 1)};
    if (one_in(3)) made["uniqueItems"] = true;
    if (one_in(2)) made["minItems"] = pick(3);
    if (!one_in(4)) made["maxItems"] = 1 + pick(2);
    return made;
  }

  RandomJson& random_;
};

struct Walked {
  std::string text;
  bool is_whole = false;
  bool is_endless = false;  // it could have continued
  std::optional<Error> error;
};

// Walks at random where it may, mostly to ends and to texts that the schema mentions; after so many
// bytes it takes the shortest way.
Walked walk(const std::shared_ptr<Grammar>& grammar, RandomJson& random) {
  constexpr std::size_t kMostBytes = 400;
  constexpr std::string_view kLiked = "\"]},:0129abxytfn[{-.";
  constexpr std::string_view kClosing = "]}\"e123890,:abxyntfluras {[";
  Matcher matcher(grammar);
  Walked walked;
  std::vector<std::uint32_t> mask(mask_words(256));
  while (walked.text.size() < 4 * kMostBytes) {
    const bool may_end = matcher.is_accepting();
    const bool is_late = walked.text.size() > kMostBytes;
    if (may_end && (is_late || random.one_in(3))) {
      walked.is_whole = true;
      return walked;
    }
    if (is_late && walked.text.size() % 100 == 0) {
      const auto rest = matcher.tokens_to_end();
      for (const vocab::TokenId byte : rest ? *rest : std::vector<vocab::TokenId>{}) {
        EXPECT_TRUE(matcher.accept(byte)) << walked.text;
        walked.text += static_cast<char>(byte);
      }
      if (rest) continue;
    }
    const Status filled = matcher.fill_mask(mask);
    std::string legal;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if ((mask[byte / 32] >> byte % 32 & 1U) != 0) legal += static_cast<char>(byte);
    }
    if (!filled || legal.empty()) {
      walked.is_whole = may_end;
      if (!filled) walked.error = filled.error();
      return walked;
    }
    std::string liked;
    for (const char byte : is_late ? kClosing : kLiked) {
      if (legal.find(byte) != std::string::npos) liked += byte;
    }
    char byte = legal[random.pick(legal.size())];
    if (is_late && !liked.empty() && !random.one_in(4)) {
      byte = liked.front();
    } else if (!liked.empty() && !random.one_in(6)) {
      byte = liked[random.pick(liked.size())];
    }
    EXPECT_TRUE(matcher.accept(static_cast<unsigned char>(byte)))
        << walked.text << ", then " << byte;
    walked.text += byte;
  }
  walked.is_endless = true;
  return walked;
}

// Without the keywords that make values of an array or object depend on each other.
Value loosened(Value schema) {
  if (json::Object* members = schema.if_object()) {
    for (const char* keyword : {"uniqueItems", "not", "minItems", "minProperties"}) {
      members->erase(keyword);
    }
    std::vector<std::string> names;
    for (const json::Member& member : *members) names.push_back(member.key);
    for (const std::string& name : names) (*members)[name] = loosened(std::move((*members)[name]));
  }
  if (json::Array* items = schema.if_array()) {
    for (Value& item : *items) item = loosened(std::move(item));
  }
  return schema;
}

// Tries to find a value of a schema that is said to have none.
void look_for_values(const Value& source, const schema::Schema& schema, RandomJson& random) {
  const auto loose = schema::Schema::compile(loosened(source));
  ASSERT_TRUE(loose);
  const auto grammar = dead_end_grammar_of(*loose, {.whitespace = JsonOptions::Whitespace::spaced});
  for (int i = 0; grammar && i < 40; ++i) {
    const Walked walked = walk(*grammar, random);
    const auto value = json::parse(walked.text);
    if (!walked.is_whole || !value) continue;
    EXPECT_FALSE(schema.is_valid(*value).value_or(true))
        << json::to_string(source) << " is said to have no value: " << walked.text;
  }
}

struct Judged {
  std::size_t compiled = 0;
  std::size_t unsatisfiable = 0;
  std::size_t limited = 0;  // walks that ended at a limit, as with numbers of a thousand digits
  std::vector<std::string> endless;
  std::vector<std::string> stuck;
  std::vector<std::string> invalid;
};

template <class Make>
Judged judge(std::uint32_t count, const Make& make) {
  Judged judged;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    RandomJson random(seed);
    const Value source = make(random);
    const auto schema = schema::Schema::compile(source);
    EXPECT_TRUE(schema) << json::to_string(source);
    if (!schema) continue;
    JsonOptions options{.whitespace = JsonOptions::Whitespace::spaced, .plain_integers = true};
    if (seed % 4 == 3) options = {.whitespace = JsonOptions::Whitespace::any, .max_whitespace = 1};
    if (seed % 2 == 1) options.property_order = JsonOptions::PropertyOrder::any;
    options.declared_only = seed % 3 == 1;
    const auto grammar = dead_end_grammar_of(*schema, options);
    if (!grammar) {
      EXPECT_EQ(grammar.error().code, Errc::unsatisfiable)
          << json::to_string(source) << ": " << grammar.error().message;
      ++judged.unsatisfiable;
      look_for_values(source, **schema, random);
      continue;
    }
    ++judged.compiled;
    for (int i = 0; i < 12; ++i) {
      const Walked walked = walk(*grammar, random);
      const std::string shown = "seed " + std::to_string(seed) + ", schema " +
                                json::to_string(source) + ", text " + walked.text;
      if (walked.is_endless) {
        judged.endless.push_back(shown);
        continue;
      }
      if (walked.error && walked.error->code == Errc::limit_exceeded) {
        ++judged.limited;
        break;
      }
      if (!walked.is_whole) {
        judged.stuck.push_back(shown + (walked.error ? ": " + walked.error->message : ""));
        break;
      }
      const auto value = json::parse(walked.text);
      const bool is_valid = value && (*schema)->is_valid(*value).value_or(false);
      if (!is_valid) judged.invalid.push_back(shown);
      note_verdict(source, walked.text, true);
    }
  }
  return judged;
}

std::string first_of(const std::vector<std::string>& lines) {
  std::string shown;
  for (std::size_t i = 0; i < std::min<std::size_t>(lines.size(), 12); ++i)
    shown += lines[i] + "\n";
  return shown;
}

TEST(DeadEndProof, ItemsThatMustDifferNeverRunOut) {
  const Judged judged = judge(is_long_test() ? 3000 : 120,
                              [](RandomJson& random) { return TightSchemas(random).array(); });
  EXPECT_TRUE(judged.stuck.empty()) << judged.stuck.size() << " of " << judged.compiled << "\n"
                                    << first_of(judged.stuck);
  EXPECT_TRUE(judged.invalid.empty()) << judged.invalid.size() << "\n" << first_of(judged.invalid);
  EXPECT_GT(judged.compiled, judged.unsatisfiable);
  EXPECT_LT(judged.endless.size(), judged.compiled / 10) << first_of(judged.endless);  // of twelve
}

TEST(DeadEndProof, KeywordsTogether) {
  const Judged judged = judge(is_long_test() ? 3000 : 120,
                              [](RandomJson& random) { return TightSchemas(random).mixed(2); });
  // Values that can only be refused as a whole (`unevaluatedProperties`, `not` over several
  // alternatives) may run out.
  EXPECT_LE(judged.stuck.size(), judged.compiled / 500)
      << judged.stuck.size() << " of " << judged.compiled << "\n"
      << first_of(judged.stuck);
  EXPECT_TRUE(judged.invalid.empty()) << judged.invalid.size() << "\n" << first_of(judged.invalid);
}

TEST(DeadEndProof, ProductsOfAlternatives) {
  const Judged judged = judge(is_long_test() ? 3000 : 120,
                              [](RandomJson& random) { return TightSchemas(random).product(); });
  EXPECT_TRUE(judged.stuck.empty()) << judged.stuck.size() << " of " << judged.compiled << "\n"
                                    << first_of(judged.stuck);
  EXPECT_TRUE(judged.invalid.empty()) << judged.invalid.size() << "\n" << first_of(judged.invalid);
  EXPECT_GT(judged.compiled, judged.unsatisfiable);
  EXPECT_LE(judged.limited, judged.compiled / 500);
}

// Walks through the schemas of a file, each line of which is an object with `id` and `schema`.
// Schemas that are refused, and walks that reach a limit, are no dead ends.
void walk_through(const std::filesystem::path& path, std::size_t walks, std::size_t every,
                  std::vector<std::string>& stuck, std::size_t& walked) {
  std::ifstream file(path);
  std::size_t number = proof_seed();
  for (std::string line; std::getline(file, line); ++number) {
    if (number % every != 0) continue;
    const auto row = json::parse(line);
    ASSERT_TRUE(row) << path;
    const json::Object& members = *row->if_object();
    const auto schema = schema::Schema::compile(*members.find("schema"));
    if (!schema) continue;
    const auto grammar = dead_end_grammar_of(*schema, {.plain_integers = true});
    if (!grammar) continue;
    RandomJson random(static_cast<std::uint32_t>(number));
    for (std::size_t i = 0; i < walks; ++i, ++walked) {
      const Walked one = walk(*grammar, random);
      if (one.is_whole || one.is_endless) continue;
      if (one.error && one.error->code == Errc::limit_exceeded) break;
      stuck.push_back(json::to_string(*members.find("id")) + ": " + one.text +
                      (one.error ? ": " + one.error->message : ""));
      break;
    }
  }
}

TEST(DeadEndProof, RealSchemas) {
  if (!is_there(Data::large)) GTEST_SKIP() << why_skipped(Data::large);
  std::vector<std::string> stuck;
  std::size_t walked = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_of(Data::large) / "masks" / "public")) {
    walk_through(entry.path(), is_long_test() ? 6 : 1, is_long_test() ? 1 : 97, stuck, walked);
  }
  std::cerr << walked << " walks\n";
  EXPECT_GT(walked, 0U);
  // One is known: where many names each say what another member may be (`dependencies`), their
  // combinations are left to a check of the whole value.
  EXPECT_LE(stuck.size(), 1U) << first_of(stuck);
}

}  // namespace
}  // namespace tenon::grammar
