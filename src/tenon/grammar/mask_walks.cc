#include "tenon/grammar/mask_walks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include "tenon/base/file.h"
#include "tenon/grammar/chosen_grammar.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer_file.h"

namespace tenon::grammar {
// Random schemas, patterns and texts, and a walk that checks the promises of masks on them; fuzz
// targets and proof tests share it. Choices turns bytes of the fuzzer, or of a random generator,
// into decisions: each pick() uses up as few bytes as it needs, and input that is used up gives the
// first choice, so every input ends.
//
// The first half makes a schema or a pattern from such choices, of kinds that have been difficult:
// counted repetitions, segments with separators, looks, formats, escapes. MaskWalk then calls a
// matcher as the choices say: it accepts tokens that the mask allows, rolls back, forks, and so on.
// After each call a matcher of a second grammar reads the same tokens and tries a sample of all
// tokens against the mask, and a finished text is validated with the schema. A broken promise is
// returned as a sentence.

using vocab::Token;
using vocab::TokenId;

// As many bytes as the count needs: one up to 256, else two.
std::size_t Choices::pick(std::size_t count) {
  if (count <= 1) return 0;
  std::size_t drawn = 0;
  for (std::size_t most = 1; most < count && !bytes_.empty(); most <<= 8U) {
    drawn = drawn << 8U | static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
  }
  return drawn % count;
}

// ---- Schemas ------------------------------------------------------------------------------------
// No expression draws twice in an order that the language leaves open: an input is the same schema
// with each compiler.

namespace {

template <std::size_t count>
std::string one_of(Choices& choices, const std::array<const char*, count>& texts) {
  return texts[choices.pick(count)];
}

std::size_t number(Choices& choices) {
  constexpr std::array<std::size_t, 24> kNumbers{0,  1,  2,  3,   4,   5,    6,    8,
                                                 9,  10, 12, 16,  19,  20,   30,   31,
                                                 33, 60, 64, 100, 255, 1000, 5000, 100'000};
  return kNumbers[choices.pick(kNumbers.size())];
}

std::string letter(Choices& choices) {
  return one_of(choices,
                std::array{"a", "b", "e",   "/",   " ",  "-",    "0",  "1",   "z",    "_",
                           ",", "é", "\\.", "\\n", "\"", "\\\\", "th", "ing", "http", "中"});
}

std::string set(Choices& choices) {
  return one_of(choices, std::array{".",
                                    "[a-z]",
                                    "\\w",
                                    "\\d",
                                    "\\s",
                                    "\\S",
                                    "[^/]",
                                    "[0-9a-f]",
                                    "[a-zA-Z0-9_-]",
                                    "[^\\s,]",
                                    "[\\u0430-\\u044f ]",
                                    "[^\"\\\\]",
                                    "\\D",
                                    "\\W",
                                    "[aeiou]",
                                    "[^a]",
                                    "[\\u0000-\\uffff]",
                                    "\\p{L}",
                                    "[b-y/]",
                                    "[\\x00-\\x1f]"});
}

std::string quantifier(Choices& choices) {
  std::size_t least = number(choices);
  std::size_t most = number(choices);
  switch (choices.pick(7)) {
    case 0:
      return "*";
    case 1:
      return "+";
    case 2:
      return "?";
    case 3:
      return "{" + std::to_string(least) + ",}";
    case 4:
      return "{" + std::to_string(least) + "}";
    default:
      if (most < least) std::swap(least, most);
      return "{" + std::to_string(least) + "," + std::to_string(most) + "}" +
             (choices.one_in(8) ? "?" : "");
  }
}

std::string pattern(Choices& choices, int depth);

std::string atom(Choices& choices, int depth) {
  switch (choices.pick(depth > 0 ? 8 : 4)) {
    case 0:
    case 1:
      return set(choices);
    case 2:
    case 3:
      return letter(choices);
    case 4:
    case 5:
      return "(?:" + pattern(choices, depth - 1) + ")";
    case 6: {
      const std::string first = pattern(choices, depth - 1);
      return "(" + first + "|" + pattern(choices, depth - 1) + ")";
    }
    default: {
      const std::string look = one_of(choices, std::array{"(?=", "(?!", "(?<=", "(?<!"});
      return look + pattern(choices, depth - 1) + ")";
    }
  }
}

std::string repeated_set(Choices& choices) {
  const std::string what = set(choices);
  return what + quantifier(choices);
}

// Several segments, each with a count, with letters between them.
std::string segments(Choices& choices) {
  std::string result;
  const bool is_one_set = choices.one_in(2);
  const std::string shared = repeated_set(choices);
  const bool is_one_letter = choices.one_in(2);
  const std::string between = letter(choices);
  for (std::size_t count = 1 + choices.pick(7); count > 0; --count) {
    result += is_one_set ? shared : repeated_set(choices);
    result += is_one_letter ? between : letter(choices);
  }
  return result;
}

std::string pattern(Choices& choices, int depth) {
  if (choices.one_in(4)) return segments(choices);
  std::string result;
  for (std::size_t parts = 1 + choices.pick(4); parts > 0; --parts) {
    std::string part = atom(choices, depth);
    const bool is_look = part.starts_with("(?=") || part.starts_with("(?!") ||
                         part.starts_with("(?<=") || part.starts_with("(?<!");
    if (is_look) {
      result += part;
      continue;
    }
    if (choices.one_in(2)) part = "(?:" + part + ")" + quantifier(choices);
    result += part;
    if (choices.one_in(12)) result += "\\b";
    if (choices.one_in(8)) result += "|";
  }
  return result;
}

std::string whole_pattern(Choices& choices) {
  std::string result = pattern(choices, 2);
  if (choices.one_in(16)) result += std::string(10'000, 'x');
  if (!choices.one_in(4)) result = "^" + result;
  if (!choices.one_in(4)) result += "$";
  return result;
}

json::Value string_schema(Choices& choices, int depth);

json::Array string_schemas(Choices& choices, int depth) {
  json::Array result;
  for (std::size_t count = 1 + choices.pick(3); count > 0; --count) {
    result.push_back(string_schema(choices, depth));
  }
  return result;
}

json::Value string_schema(Choices& choices, int depth) {
  json::Object schema{{"type", "string"}};
  if (!choices.one_in(4)) schema["pattern"] = whole_pattern(choices);
  if (choices.one_in(4)) schema["minLength"] = static_cast<std::int64_t>(number(choices));
  if (choices.one_in(3)) schema["maxLength"] = static_cast<std::int64_t>(number(choices));
  if (choices.one_in(6)) {
    schema["format"] = one_of(choices, std::array{"date", "date-time", "email", "uri", "uuid",
                                                  "ipv4", "ipv6", "hostname", "time", "duration"});
  }
  if (choices.one_in(8)) {
    schema["enum"] = json::Array{"a", "ab", letter(choices), "http://a/b", "", 1};
  }
  if (depth == 0) return schema;
  if (choices.one_in(4)) schema["allOf"] = string_schemas(choices, depth - 1);
  if (choices.one_in(8)) schema["anyOf"] = string_schemas(choices, depth - 1);
  if (choices.one_in(12)) schema["oneOf"] = string_schemas(choices, depth - 1);
  if (choices.one_in(6)) schema["not"] = string_schema(choices, depth - 1);
  return schema;
}

json::Value any_schema(Choices& choices, int depth);

json::Value object_schema(Choices& choices, int depth) {
  json::Object schema{{"type", "object"}};
  json::Object properties;
  json::Array required;
  for (std::size_t count = choices.pick(4); count > 0; --count) {
    const std::string name = one_of(choices, std::array{"a", "ab", "b", "name", "x-1", "é"});
    properties[name] = any_schema(choices, depth - 1);
    if (choices.one_in(2)) required.push_back(name);
  }
  schema["properties"] = std::move(properties);
  schema["required"] = std::move(required);
  for (std::size_t count = choices.pick(3); count > 0; --count) {
    if (schema.find("patternProperties") == nullptr) schema["patternProperties"] = json::Object{};
    const std::string names = whole_pattern(choices);
    (*schema.find("patternProperties")->if_object())[names] = any_schema(choices, depth - 1);
  }
  if (choices.one_in(3)) schema["additionalProperties"] = false;
  if (choices.one_in(5)) schema["propertyNames"] = string_schema(choices, 0);
  if (choices.one_in(5)) schema["minProperties"] = static_cast<std::int64_t>(choices.pick(5));
  if (choices.one_in(5)) schema["maxProperties"] = static_cast<std::int64_t>(choices.pick(5));
  return schema;
}

json::Value array_schema(Choices& choices, int depth) {
  json::Object schema{{"type", "array"}, {"items", any_schema(choices, depth - 1)}};
  if (choices.one_in(3)) schema["minItems"] = static_cast<std::int64_t>(choices.pick(5));
  if (choices.one_in(3)) schema["maxItems"] = static_cast<std::int64_t>(number(choices));
  if (choices.one_in(4)) schema["uniqueItems"] = true;
  if (choices.one_in(5)) {
    schema["prefixItems"] = json::Array{any_schema(choices, depth - 1), string_schema(choices, 0)};
  }
  if (choices.one_in(6)) schema["contains"] = string_schema(choices, 0);
  return schema;
}

json::Value any_schema(Choices& choices, int depth) {
  switch (choices.pick(depth > 0 ? 8 : 5)) {
    case 4: {
      json::Object schema{{"type", choices.one_in(2) ? "integer" : "number"}};
      if (choices.one_in(2)) schema["minimum"] = static_cast<std::int64_t>(number(choices));
      if (choices.one_in(2)) schema["maximum"] = static_cast<std::int64_t>(number(choices));
      if (choices.one_in(4)) {
        schema["multipleOf"] = static_cast<std::int64_t>(1 + choices.pick(40));
      }
      return schema;
    }
    case 5:
      return object_schema(choices, depth);
    case 6:
      return array_schema(choices, depth);
    case 7:
      return json::Object{
          {"anyOf", json::Array{any_schema(choices, depth - 1), any_schema(choices, depth - 1)}}};
    default:
      return string_schema(choices, 1);
  }
}

JsonOptions chosen_options(Choices& choices) {
  using Whitespace = JsonOptions::Whitespace;
  constexpr std::array kWhitespaces{Whitespace::compact, Whitespace::spaced, Whitespace::pretty,
                                    Whitespace::any};
  JsonOptions options;
  options.whitespace = kWhitespaces[choices.pick(kWhitespaces.size())];
  if (choices.one_in(3)) options.property_order = JsonOptions::PropertyOrder::schema;
  if (choices.one_in(4)) options.unicode_escapes = UnicodeEscapes::controls;
  options.plain_integers = choices.one_in(4);
  options.lenient = choices.one_in(6);
  return options;
}

}  // namespace

json::Value chosen_schema(Choices& choices) {
  return choices.one_in(3) ? any_schema(choices, 2) : string_schema(choices, 2);
}

// ---- Walks --------------------------------------------------------------------------------------

namespace {

// CPU time of this thread, which a busy machine does not change.
double walk_cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// What may fail although nothing is wrong: a limit, or a feature that is refused by name.
bool is_limit(Errc code) {
  return code == Errc::limit_exceeded || code == Errc::unsupported;
}

class MaskWalk {
 public:
  // Whether a text that is accepted as a whole is right.
  using Check = std::function<std::optional<std::string>(const std::string& text)>;

  MaskWalk(Choices& choices, Check check, const std::shared_ptr<Grammar>& grammar,
           std::shared_ptr<Grammar> other, MaskWalkCounts& counts)
      : choices_(choices),
        check_(std::move(check)),
        vocab_(grammar->index().vocab()),
        matcher_(grammar),
        other_(std::move(other)),
        counts_(counts),
        mask_(mask_words(vocab_.size())) {}

  // Returns the promise that was broken, if any.
  std::optional<std::string> run() {
    constexpr int kMostCalls = 40;
    for (int i = 0; i < kMostCalls && !broken_ && look(); ++i) {
      call();
      // The first choice is to accept, so inputs that are used up end after a few steps.
      if (choices_.is_used_up() && i > kMostCalls / 2) break;
    }
    return broken_;
  }

 private:
  using Mask = std::vector<std::uint32_t>;

  // Keeps the first promise that was broken, and the text after which it was.
  void promise(bool holds, const std::string& what) {
    if (holds || broken_) return;
    broken_ = what + ", after '" + text() + "'";
  }
  [[nodiscard]] std::string text() const {
    std::string result;
    for (const TokenId id : accepted_) result += vocab_.bytes(id);
    return result;
  }
  template <class Call>
  auto timed(const Call& call) {
    const double begun = walk_cpu_us();
    auto result = call();
    counts_.most_us = std::max(counts_.most_us, walk_cpu_us() - begun);
    return result;
  }
  [[nodiscard]] static bool has_bit(const Mask& mask, TokenId id) {
    const auto bit = static_cast<std::uint32_t>(id);
    return (mask[bit / 32] >> bit % 32 & 1U) != 0;
  }

  // Makes the mask and tries a sample of the tokens. False: the walk is over.
  bool look() {
    const Status filled = timed([&] { return matcher_.fill_mask(mask_); });
    ++counts_.masks;
    if (!filled) {
      const Errc code = filled.error().code;
      promise(is_limit(code) || code == Errc::unsatisfiable, "a mask fails by a limit alone");
      promise(!filled.error().message.empty(), "an error says why");
      if (is_limit(code)) ++counts_.limited;
      return false;
    }
    // A matcher of the second grammar, which has none of the states and masks that this walk has
    // made.
    Matcher replay(other_);
    for (const TokenId id : accepted_) {
      if (replay.accept(id)) continue;
      promise(replay.error().has_value(), "another matcher accepts the same tokens");
      return false;
    }
    if (matcher_.is_finished()) return true;
    promise(matcher_.is_accepting() == replay.is_accepting() || replay.error(),
            "another matcher may end at the same places");
    allowed_.clear();
    for (std::size_t word = 0; word < mask_.size(); ++word) {
      for (std::uint32_t rest = mask_[word]; rest != 0; rest &= rest - 1) {
        allowed_.push_back(
            static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(rest))));
      }
    }
    for (const TokenId id : sample()) {
      const bool is_accepted = timed([&] { return replay.accept(id); });
      ++counts_.trials;
      if (!is_accepted && replay.error()) return false;
      if (is_accepted) replay.rollback(1);
      promise(is_accepted == has_bit(mask_, id),
              "token " + std::to_string(id) + " '" + std::string(vocab_.bytes(id)) +
                  "' is in the mask " +
                  (has_bit(mask_, id) ? "and cannot be accepted" : "not, and can be accepted"));
      if (broken_) return false;
    }
    return true;
  }

  // Tokens at even distances, another beginning each time; tokens that are allowed among them.
  [[nodiscard]] std::vector<TokenId> sample() {
    constexpr std::size_t kSome = 40;
    std::vector<TokenId> ids;
    const auto take = [&](std::size_t count, const auto& at) {
      if (count == 0) return;
      const std::size_t stride = count / kSome + 1;
      for (std::size_t i = offset_ % stride; i < count; i += stride) ids.push_back(at(i));
    };
    take(vocab_.size(), [](std::size_t i) { return static_cast<TokenId>(i); });
    take(allowed_.size(), [&](std::size_t i) { return allowed_[i]; });
    // A prime, so that each sample has other tokens.
    offset_ += 7919;
    return ids;
  }

  void call() {
    switch (choices_.pick(16)) {
      case 9:
        return roll_back();
      case 10:
        return fork();
      case 11:
        return refuse();
      case 12:
        return draft();
      case 13:
        return force();
      case 14:
        return end();
      case 15:
        return accept(close());
      default:
        return accept(
            allowed_.empty()
                ? 0
                : allowed_[choices_.pick(std::min<std::size_t>(allowed_.size(), 65'536))]);
    }
  }

  void accept(TokenId id) {
    if (allowed_.empty() || matcher_.is_finished()) return roll_back();
    const bool is_accepted = timed([&] { return matcher_.accept(id); });
    promise(is_accepted || matcher_.error(), "a token of the mask can be accepted");
    if (!is_accepted) return;
    if (!matcher_.is_finished()) {
      accepted_.push_back(id);
      return;
    }
    validate();
    matcher_.rollback(1);
  }
  // The shortest token that is allowed and closes something, or any.
  [[nodiscard]] TokenId close() const {
    for (const TokenId id : allowed_) {
      if (vocab_.bytes(id) == "\"" || vocab_.bytes(id) == "}" || vocab_.bytes(id) == "]") return id;
    }
    return allowed_.empty() ? 0 : allowed_.back();
  }
  void validate() {
    const std::optional<std::string> wrong = check_ ? check_(text()) : std::nullopt;
    if (wrong) promise(false, *wrong);
  }

  void roll_back() {
    const std::size_t count = choices_.pick(accepted_.size() + 1);
    matcher_.rollback(count);
    accepted_.resize(accepted_.size() - count);
  }
  void fork() {
    Matcher fork = matcher_;
    Mask mask(mask_.size());
    const Status filled = fork.fill_mask(mask);
    promise(!filled || mask == mask_, "a fork has the same mask");
    if (!allowed_.empty()) static_cast<void>(fork.accept(allowed_.front()));
    fork.rollback(fork.accepted_count());
  }
  // A token that is not allowed leaves all as it was.
  void refuse() {
    const auto id =
        static_cast<TokenId>(choices_.pick(std::min<std::size_t>(vocab_.size(), 65'536)));
    if (has_bit(mask_, id)) return;
    promise(!matcher_.accept(id), "a token that the mask has not is refused");
    Mask mask(mask_.size());
    const Status filled = matcher_.fill_mask(mask);
    promise(!filled || mask == mask_, "a refused token changes nothing");
  }
  void draft() {
    std::vector<TokenId> ids;
    for (int i = 0; i < 4; ++i) {
      ids.push_back(
          static_cast<TokenId>(choices_.pick(std::min<std::size_t>(vocab_.size(), 65'536))));
    }
    if (!allowed_.empty())
      ids[0] = allowed_[choices_.pick(std::min<std::size_t>(allowed_.size(), 256))];
    const std::size_t good = matcher_.validate_draft(ids);
    promise(good > 0 || matcher_.error() || allowed_.empty(),
            "a draft begins with an allowed token");
  }
  void force() {
    const std::string forced = timed([&] { return matcher_.forced_bytes(64); });
    if (forced.empty() || !matcher_.accept_bytes(forced)) {
      promise(forced.empty() || matcher_.error(), "what is forced can be accepted");
      return;
    }
    matcher_.rollback(1);
  }
  void end() {
    const auto ids = timed([&] { return matcher_.tokens_to_end(200, 2000); });
    if (!ids) return promise(is_limit(ids.error().code), "no end is found for a limit alone");
    std::size_t taken = 0;
    while (taken < ids->size() && matcher_.accept((*ids)[taken])) ++taken;
    promise(taken == ids->size() || matcher_.error(), "the way to an end can be gone");
    if (taken == ids->size())
      promise(matcher_.is_accepting() || matcher_.error(), "it leads to an end");
    matcher_.rollback(taken);
  }

  Choices& choices_;
  Check check_;
  const vocab::Vocab& vocab_;
  Matcher matcher_;
  std::shared_ptr<Grammar> other_;
  MaskWalkCounts& counts_;
  Mask mask_;
  std::vector<TokenId> allowed_;
  std::vector<TokenId> accepted_;
  std::size_t offset_ = 0;
  std::optional<std::string> broken_;
};

// A walk through the grammar of `build`, made twice. Returns the promise that was broken, if any.
std::optional<std::string> walk_through(Choices& choices, const Grammar::Build& build,
                                        MaskWalk::Check check,
                                        const std::shared_ptr<VocabIndex>& index,
                                        MaskWalkCounts& counts) {
  const double begun = walk_cpu_us();
  const auto grammar = Grammar::make(build, index);
  counts.most_us = std::max(counts.most_us, walk_cpu_us() - begun);
  if (!grammar) {
    ++counts.refused;
    const Errc code = grammar.error().code;
    if (grammar.error().message.empty()) return "a refusal says why";
    if (!is_limit(code) && code != Errc::unsatisfiable) return "a grammar fails by a limit alone";
    return std::nullopt;
  }
  const auto other = Grammar::make(build, index);
  if (!other) return "what could be made once can be made again";
  return MaskWalk(choices, std::move(check), *grammar, *other, counts).run();
}

}  // namespace

std::optional<std::string> play_mask_walk(std::string_view input,
                                          const std::shared_ptr<VocabIndex>& index,
                                          MaskWalkCounts& counts) {
  Choices choices(input);
  ++counts.inputs;
  const json::Value source = chosen_schema(choices);
  const JsonOptions options = chosen_options(choices);
  const auto told = [&](std::string what) {
    return std::optional(std::move(what) + ", schema " + json::to_string(source));
  };
  const auto schema = schema::Schema::compile(source, {.assert_format = true});
  if (!schema) {
    ++counts.refused;
    if (schema.error().message.empty()) return told("a refusal says why");
    return std::nullopt;
  }
  const auto check = [&](const std::string& text) -> std::optional<std::string> {
    const auto instance = json::parse(text);
    if (!instance) return "what is accepted as a whole is JSON";
    if (options.lenient) return std::nullopt;  // not all of the schema is enforced
    const auto is_valid = (*schema)->is_valid(*instance);
    if (is_valid && !*is_valid) return "what is accepted as a whole is valid";
    return std::nullopt;
  };
  auto broken = walk_through(
      choices, [=](Machine& machine) { return add_json(machine, *schema, options); }, check, index,
      counts);
  return broken ? told(*std::move(broken)) : std::nullopt;
}

std::optional<std::string> play_grammar_walk(std::string_view input, Dialect dialect,
                                             const std::shared_ptr<VocabIndex>& index,
                                             MaskWalkCounts& counts) {
  Choices choices(input);
  ++counts.inputs;
  const std::string source = chosen_grammar(choices, dialect);
  const auto told = [&](std::string what) {
    return std::optional(std::move(what) + ", grammar " + source);
  };
  const auto rules = read_rules(source, syntax_of(dialect));
  if (!rules) {
    ++counts.refused;
    if (rules.error().message.empty()) return told("a refusal says why");
    return std::nullopt;
  }
  auto broken = walk_through(
      choices, [&](Machine& machine) { return add_rules(machine, *rules, index->vocab()); },
      nullptr, index, counts);
  return broken ? told(*std::move(broken)) : std::nullopt;
}

// ---- Vocabularies -------------------------------------------------------------------------------

std::shared_ptr<VocabIndex> bundled_index(const std::string& root) {
  const auto tokenizer = vocab::load_tokenizer(root + "/models/tenon-tiny.gguf");
  if (!tokenizer) return nullptr;
  const auto vocab = vocab::Vocab::of(**tokenizer);
  return vocab ? std::make_shared<VocabIndex>(*vocab) : nullptr;
}

std::shared_ptr<VocabIndex> index_of_tokens(const std::string& path, std::size_t most) {
  const auto read = read_file(path, std::size_t{64} << 20);
  if (!read) return nullptr;
  std::string_view file = *read;
  const auto number = [&file](std::size_t size) {
    std::uint32_t value = 0;
    std::memcpy(&value, file.data(), size);  // both are little-endian
    file.remove_prefix(size);
    return value;
  };
  static_assert(std::endian::native == std::endian::little);
  file.remove_prefix(4);
  const std::size_t count = number(4);
  const std::size_t end = number(4);
  std::vector<Token> tokens;
  Token last;
  for (std::size_t i = 0; i < count; ++i) {
    Token token;
    const bool is_control = number(1) != 0;
    const std::size_t size = number(2);
    token.bytes = file.substr(0, size);
    file.remove_prefix(size);
    token.kind = is_control  ? Token::Kind::control
                 : size == 0 ? Token::Kind::unused
                             : Token::Kind::text;
    if (i == end) {
      last = std::move(token);
    } else if (tokens.size() + 1 < most) {
      tokens.push_back(std::move(token));
    }
  }
  // The end token comes last, as it may be beyond the first `most` tokens.
  tokens.push_back(std::move(last));
  const auto id = static_cast<TokenId>(tokens.size() - 1);
  const auto vocab = vocab::Vocab::make(std::move(tokens), {id});
  return vocab ? std::make_shared<VocabIndex>(*vocab) : nullptr;
}

}  // namespace tenon::grammar
