#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/vocab/gguf_patterns.h"
#include "tenon/vocab/spelling.h"
#include "tenon/vocab/text_tokenizer.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/turn_ends.h"

// Translates the tokenizer of a GGUF file to the parts of a TextTokenizer. The file has the texts
// of the tokens, their types, and scores or merges. How texts are cut and normalised is not in it:
// llama.cpp has code for each name in `tokenizer.ggml.model` and `tokenizer.ggml.pre`, which
// model() selects.
//
//  - "llama": SentencePiece's BPE. Merges follow from the scores.
//  - "gpt2": BPE of bytes, with merges, and a pattern by name (gguf_patterns.cc).
//  - "gemma4": BPE of characters, with merges.
//  - "t5": SentencePiece's unigram model.
//
// The keys and their defaults are those of
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and of llama.cpp's llama-vocab.cpp.
namespace tenon::vocab {
namespace {

// Values of `tokenizer.ggml.token_type`, as llama.cpp numbers them.
enum class Type : std::uint8_t { none, normal, unknown, control, user_defined, unused, byte };

class GgufReader {
 public:
  explicit GgufReader(const GgufFile& file) : file_(file) {}
  Expected<std::shared_ptr<const Tokenizer>> read();

 private:
  Error error(Errc code, const std::string& message) const {
    return Error{code, "tokenizer.ggml." + message};
  }
  // "bos" for tokenizer.ggml.bos_token_id.
  std::optional<TokenId> id(std::string_view name) const;
  Status read_tokens();
  Status read_roles();
  Expected<std::unique_ptr<const Model>> model();
  Expected<std::unique_ptr<const Model>> merging_model(bool of_bytes, const GgufPattern& pattern);
  Expected<std::unique_ptr<const Model>> scored_model();
  Expected<std::unique_ptr<const Model>> unigram_model();
  Expected<std::vector<double>> scores() const;
  StringTable table(const std::vector<std::string>& texts) const;
  Status add_patterns(const GgufPattern& pattern);
  void swap_spaces();
  std::string bytes_of(std::size_t index) const;

  const GgufFile& file_;
  std::string_view name_;  // the model's name
  bool of_bytes_ = false;  // texts are in GPT-2's alphabet
  std::vector<std::string> texts_;
  std::vector<Type> types_;
  TextTokenizer::Parts parts_;
  std::vector<Normalizer::Step> normalizer_;
  std::vector<PreTokenizer::Step> pre_tokenizer_;
};

std::optional<TokenId> GgufReader::id(std::string_view name) const {
  const auto value = file_.integer("tokenizer.ggml." + std::string(name) + "_token_id");
  // An id that does not exist counts as not named.
  if (!value || *value < 0 || std::cmp_greater_equal(*value, texts_.size())) return std::nullopt;
  return static_cast<TokenId>(*value);
}

// The file comes from somewhere else, so lists are compared and bounded before anything is made of
// them.
Status GgufReader::read_tokens() {
  const std::vector<std::string_view> tokens = file_.strings("tokenizer.ggml.tokens");
  const std::vector<std::int64_t> types = file_.integers("tokenizer.ggml.token_type");
  if (tokens.empty()) return Unexpected(error(Errc::invalid, "tokens: the list is empty"));
  if (tokens.size() > static_cast<std::size_t>(kMostTokens)) {
    return Unexpected(
        error(Errc::limit_exceeded, "tokens: more than " + std::to_string(kMostTokens)));
  }
  // Without the list, all are ordinary tokens.
  if (!types.empty() && types.size() != tokens.size()) {
    return Unexpected(error(Errc::invalid, "token_type: as many as there are tokens are needed"));
  }
  types_.assign(tokens.size(), Type::normal);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 1 || types[i] > 6) {
      return Unexpected(error(Errc::invalid, "token_type[" + std::to_string(i) + "]: " +
                                                 std::to_string(types[i]) + " is not a type"));
    }
    types_[i] = static_cast<Type>(types[i]);
  }
  constexpr std::size_t kMostBytes = std::size_t{1} << 28U;
  std::size_t bytes = 0;
  for (const std::string_view token : tokens) bytes += token.size();
  if (bytes > kMostBytes) {
    return Unexpected(error(Errc::limit_exceeded, "tokens: more than 256 MiB of text"));
  }
  texts_.assign(tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (!utf8::is_valid(texts_[i])) {
      return Unexpected(error(Errc::invalid, "tokens[" + std::to_string(i) + "]: no UTF-8"));
    }
  }
  return {};
}

// Which tokens are control tokens, and which end a turn. Converters mark some markers
// (`<|im_end|>`) as user-defined; they are control tokens here if they look like a marker.
Status GgufReader::read_roles() {
  const std::vector<std::string_view> views(texts_.begin(), texts_.end());
  parts_.ends = turn_ends(views);
  parts_.bos = id("bos");
  parts_.eos = id("eos");
  // Some models end a turn, or a message that waits for a tool, with tokens of their own.
  for (const auto& end : {parts_.eos, id("eot"), id("eom")}) {
    if (end) parts_.ends.push_back(*end);
  }
  parts_.is_control.resize(texts_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const bool is_marker = types_[i] == Type::user_defined && looks_like_marker(texts_[i]);
    parts_.is_control[i] = types_[i] == Type::control || types_[i] == Type::unknown || is_marker;
  }
  for (const TokenId end : parts_.ends) parts_.is_control[static_cast<std::size_t>(end)] = true;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    // User-defined tokens are searched for in the text, but not all are control tokens.
    if (texts_[i].empty() || (!parts_.is_control[i] && types_[i] != Type::user_defined)) continue;
    if (texts_[i].size() > AddedToken::kLongest) {
      return Unexpected(error(Errc::limit_exceeded, "tokens[" + std::to_string(i) +
                                                        "]: longer than " +
                                                        std::to_string(AddedToken::kLongest)));
    }
    parts_.added.push_back(
        {.id = static_cast<TokenId>(i), .text = texts_[i], .is_control = parts_.is_control[i]});
  }
  return {};
}

Status GgufReader::add_patterns(const GgufPattern& pattern) {
  for (const std::string_view each : pattern.patterns) {
    if (each.empty()) continue;
    auto compiled = regex::Splitter::compile(each);
    if (!compiled) return Unexpected(compiled.error());
    pre_tokenizer_.push_back({.pattern = std::move(*compiled)});
  }
  return {};
}

// SentencePiece writes spaces as U+2581, and puts one before the first word.
void GgufReader::swap_spaces() {
  using Step = PreTokenizer::Step;
  // The default is SentencePiece's, which only this model has.
  const bool adds = file_.boolean("tokenizer.ggml.add_space_prefix").value_or(name_ == "llama");
  pre_tokenizer_.push_back({.kind = Step::Kind::swap, .text = std::string(kLowerBlock)});
  if (!adds) return;
  normalizer_.push_back({.kind = Normalizer::Step::Kind::prepend, .with = " ", .once = true});
}

StringTable GgufReader::table(const std::vector<std::string>& texts) const {
  std::vector<bool> findable(texts.size());
  // What a piece of text may become: never a control token, an unused one or the name of a byte.
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool is_text = types_[i] == Type::normal || types_[i] == Type::user_defined;
    findable[i] = is_text && !texts[i].empty() && !parts_.is_control[i];
  }
  return StringTable(std::vector<std::string_view>(texts.begin(), texts.end()), findable);
}

Expected<std::vector<double>> GgufReader::scores() const {
  std::vector<double> scores = file_.numbers("tokenizer.ggml.scores");
  const bool is_finite =
      std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); });
  if (scores.size() != texts_.size() || !is_finite) {
    return Unexpected(error(Errc::invalid, "scores: one number for each token is needed"));
  }
  return scores;
}

Expected<std::unique_ptr<const Model>> GgufReader::merging_model(bool of_bytes,
                                                                 const GgufPattern& pattern) {
  of_bytes_ = of_bytes;
  if (Status added = add_patterns(pattern); !added) return Unexpected(added.error());
  std::vector<std::string> texts = texts_;
  if (of_bytes) {
    // Markers may hold characters that the alphabet lacks; nothing looks for these.
    for (std::string& text : texts) text = from_byte_alphabet(text).value_or("");
  }
  StringTable found = table(texts);
  const auto find = [&](std::string_view text) {
    if (!of_bytes) return found.find(text);
    const std::optional<std::string> bytes = from_byte_alphabet(text);
    return bytes ? found.find(*bytes) : std::nullopt;
  };
  const std::vector<std::string_view> lines = file_.strings("tokenizer.ggml.merges");
  if (lines.empty()) return Unexpected(error(Errc::invalid, "merges: the list is empty"));
  std::vector<BpeModel::Merge> merges;
  merges.reserve(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // From the second byte on, since the left text may be a space.
    const std::size_t space = lines[i].find(' ', 1);
    if (space == std::string_view::npos) {
      return Unexpected(
          error(Errc::invalid, "merges[" + std::to_string(i) + "]: no pair of texts"));
    }
    const std::string_view left = lines[i].substr(0, space);
    const std::string_view right = lines[i].substr(space + 1);
    const auto left_id = find(left);
    const auto right_id = find(right);
    const auto result = find(std::string(left).append(right));
    // Converters leave merges of tokens that became control tokens; these merges never happen.
    if (!left_id || !right_id || !result) continue;
    merges.push_back({*left_id, *right_id, *result, static_cast<std::uint32_t>(i)});
  }
  Fallback fallback;
  // Names of bytes and a token for the unknown belong to vocabularies of characters.
  if (!of_bytes) fallback = {.bytes = byte_tokens(texts_), .unknown = id("unknown")};
  return std::make_unique<const BpeModel>(
      std::move(found), merges,
      BpeModel::Options{
          .of_bytes = of_bytes, .prefers_whole = pattern.prefers_whole, .fallback = fallback});
}

// SentencePiece's BPE has no merges: of all tokens that two neighbours can make, the one with the
// greatest score is made first.
Expected<std::unique_ptr<const Model>> GgufReader::scored_model() {
  const Expected<std::vector<double>> score = scores();
  if (!score) return Unexpected(score.error());
  swap_spaces();
  // The rank of a token is the place of its score among all scores, so equal scores have equal
  // ranks and the leftmost pair comes first.
  std::vector<double> order = *score;
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  StringTable found = table(texts_);
  const Expected<std::vector<BpeModel::Merge>> merges =
      merges_by_text(found, /*whole_characters=*/true, [&](TokenId token) {
        const double own = (*score)[static_cast<std::size_t>(token)];
        return static_cast<std::uint32_t>(
            std::lower_bound(order.begin(), order.end(), own, std::greater<>()) - order.begin());
      });
  if (!merges) return Unexpected(error(merges.error().code, "tokens: " + merges.error().message));
  return std::make_unique<const BpeModel>(
      std::move(found), *merges,
      BpeModel::Options{.fallback = {.bytes = byte_tokens(texts_), .unknown = id("unknown")}});
}

// SentencePiece's unigram model, as T5 has it: the normaliser's steps come first, in the order in
// which SentencePiece applies them.
Expected<std::unique_ptr<const Model>> GgufReader::unigram_model() {
  using Step = Normalizer::Step;
  Expected<std::vector<double>> score = scores();
  if (!score) return Unexpected(score.error());
  // Words would end in a space instead of beginning with one.
  if (file_.boolean("tokenizer.ggml.treat_whitespace_as_suffix").value_or(false)) {
    return Unexpected(error(Errc::unsupported, "treat_whitespace_as_suffix is not supported"));
  }
  const std::vector<std::int64_t> charsmap = file_.integers("tokenizer.ggml.precompiled_charsmap");
  // An array of integers of 8 bits, signed or not.
  if (!charsmap.empty()) {
    std::string bytes(charsmap.size(), '\0');
    std::transform(charsmap.begin(), charsmap.end(), bytes.begin(),
                   [](std::int64_t byte) { return static_cast<char>(byte); });
    Expected<Charsmap> map = Charsmap::parse(bytes, Charsmap::Unit::longest);
    if (!map)
      return Unexpected(error(map.error().code, "precompiled_charsmap: " + map.error().message));
    normalizer_.push_back({.kind = Step::Kind::charsmap,
                           .charsmap = std::make_shared<const Charsmap>(std::move(*map))});
  }
  // At both ends, and all but one of those between words.
  if (file_.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false)) {
    for (const auto& [what, with] : {std::pair{R"(\A +| +\z)", ""}, std::pair{" {2,}", " "}}) {
      auto compiled = regex::Splitter::compile(what);
      if (!compiled) return Unexpected(compiled.error());
      normalizer_.push_back(
          {.kind = Step::Kind::replace, .with = with, .pattern = std::move(*compiled)});
    }
  }
  swap_spaces();
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    // Scores are logarithms of probabilities: with 0, a token is chosen wherever it fits.
    if (types_[i] == Type::user_defined) (*score)[i] = 0;
    if (texts_[i].size() > AddedToken::kLongest) {
      return Unexpected(error(Errc::limit_exceeded, "tokens[" + std::to_string(i) +
                                                        "]: longer than " +
                                                        std::to_string(AddedToken::kLongest)));
    }
  }
  const TokenId usual = 2;  // of T5
  const Fallback fallback = {.bytes = byte_tokens(texts_),
                             .unknown = id("unknown").value_or(usual)};
  if (std::cmp_greater_equal(*fallback.unknown, texts_.size())) {
    return Unexpected(error(Errc::invalid, "unknown_token_id: it is missing"));
  }
  return std::make_unique<const UnigramModel>(table(texts_), std::move(*score), fallback);
}

// A GGUF file names its algorithm and its pattern by words that llama.cpp has given them. A pattern
// that is not known is refused, because the wrong one cuts texts differently without any error.
Expected<std::unique_ptr<const Model>> GgufReader::model() {
  const std::string_view pattern_name = file_.string("tokenizer.ggml.pre").value_or("");
  parts_.adds_bos = name_ == "llama" || name_ == "gemma4";
  if (name_ == "llama") return scored_model();
  if (name_ == "t5") return unigram_model();
  const bool is_gemma = name_ == "gemma4" || pattern_name == "gemma4";
  if (is_gemma) {
    parts_.adds_bos = true;
    // Spaces are swapped, but none is put before the text, and texts are not cut.
    pre_tokenizer_.push_back(
        {.kind = PreTokenizer::Step::Kind::swap, .text = std::string(kLowerBlock)});
    return merging_model(/*of_bytes=*/false, GgufPattern{});
  }
  if (name_ != "gpt2") {
    return Unexpected(
        error(Errc::unsupported, "model: '" + std::string(name_) + "' is not supported"));
  }
  const GgufPattern* pattern = find_gguf_pattern(pattern_name);
  if (pattern == nullptr) {
    return Unexpected(
        error(Errc::unsupported, "pre: '" + std::string(pattern_name) + "' is not supported"));
  }
  parts_.adds_bos = pattern->adds_bos;
  return merging_model(/*of_bytes=*/true, *pattern);
}

// What a token adds to a text. Markers are their own text; ordinary tokens are written in the
// alphabet of bytes, or with `▁` for a space.
std::string GgufReader::bytes_of(std::size_t index) const {
  const std::string& text = texts_[index];
  switch (types_[index]) {
    // A reserved token that ends a turn has its text; others are never chosen.
    case Type::unused:
      if (!parts_.is_control[index]) return "";
      [[fallthrough]];
    case Type::control:
    case Type::unknown:
    case Type::user_defined:
      return text;
    case Type::byte:
      if (const auto byte = byte_of_name(text)) return {static_cast<char>(*byte)};
      return text;
    case Type::none:
    case Type::normal:
      break;
  }
  if (parts_.is_control[index]) return text;
  if (of_bytes_) return from_byte_alphabet(text).value_or(text);
  return with_replaced(text, kLowerBlock, " ");
}

Expected<std::shared_ptr<const Tokenizer>> GgufReader::read() {
  name_ = file_.string("tokenizer.ggml.model").value_or("");
  if (Status read = read_tokens(); !read) return Unexpected(read.error());
  if (Status read = read_roles(); !read) return Unexpected(read.error());
  Expected<std::unique_ptr<const Model>> made = model();
  if (!made) return Unexpected(made.error());
  parts_.model = std::move(*made);
  if (name_ != "gemma4") {  // the files of this model said no where they meant yes
    parts_.adds_bos = file_.boolean("tokenizer.ggml.add_bos_token").value_or(parts_.adds_bos);
  }
  for (std::size_t i = 0; i < texts_.size(); ++i) parts_.bytes.push_back(bytes_of(i));
  parts_.normalizer = Normalizer(std::move(normalizer_));
  parts_.pre_tokenizer = PreTokenizer(std::move(pre_tokenizer_));
  return std::make_shared<const TextTokenizer>(std::move(parts_));
}

}  // namespace

Expected<std::shared_ptr<const Tokenizer>> read_gguf_tokenizer(const GgufFile& file) {
  return GgufReader(file).read();
}

}  // namespace tenon::vocab
