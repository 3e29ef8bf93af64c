#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/json/value.h"
#include "tenon/vocab/json_fields.h"
#include "tenon/vocab/spelling.h"
#include "tenon/vocab/text_tokenizer.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/turn_ends.h"

// Translates a tokenizer.json to the parts of a TextTokenizer. Each section of the file
// (normalizer, pre-tokenizer, model, decoder, post-processor, added tokens) has a function that
// reads its members through Fields: a member or a type that Tenon does not know is an error,
// because a tokenizer that ignores it would give other ids than the model's own. The names and
// defaults are those of the `tokenizers` package.
//
// A decoder is not run: it is read to find out which bytes each token stands for (Decoding), once
// for every token. The post-processor is read only for the token that it puts before a text.
//
// The file is not trusted: the number of ids is bounded by the size of the file, the number of
// steps by kMostSteps, and the growth of a token by kMostGrowth. The first error is kept with its
// place, and everything after it reads as missing.
// Source: https://github.com/huggingface/tokenizers/tree/main/tokenizers/src
namespace tenon::vocab {
namespace {

using Behavior = PreTokenizer::Behavior;
using NormalizerStep = Normalizer::Step;
using CutStep = PreTokenizer::Step;

// In the `tokenizers` package the pattern of ByteLevel is fixed. `\s+(?!\S)` leaves the last space
// to the word behind it.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// \w as Rust defines it; Oniguruma's \w differs.
constexpr std::string_view kWordPattern =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)";
// Unicode's punctuation, and ASCII's symbols, such as + and =, which are not punctuation there.
constexpr std::string_view kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";

/// How the decoder turns a token's text into bytes.
struct Decoding {
  // Texts are in GPT-2's alphabet, in which each byte is a printable character.
  bool byte_alphabet = false;
  bool byte_names = false;                                        // "<0x0A>" is one byte
  std::vector<std::pair<std::string, std::string>> replacements;  // e.g. `▁` by a space
};

class JsonReader {
 public:
  Expected<std::shared_ptr<const Tokenizer>> read(const json::Value& file,
                                                  const json::Value& config);

 private:
  void fail(Errc code, std::string message) {
    if (!error_) error_ = Error{code, std::move(message)};
  }
  /// The members of `value`; its "type" has been read.
  struct Typed {
    Fields fields;
    std::string type;
  };
  Typed typed(const json::Value& value, const std::string& place);
  void refuse(Typed& part) {
    part.fields.fail(Errc::unsupported, "has the type '" + part.type + "', which is not supported");
  }
  // In each part, because a step goes over the whole text.
  static constexpr std::size_t kMostSteps = 64;
  static constexpr std::size_t kMostGrowth = 8;  // of a token, by the decoder: 4 GiB in all
  static void too_many(Fields& fields) {
    fields.fail(Errc::limit_exceeded, "is one step more than " + std::to_string(kMostSteps));
  }
  template <typename Read>
  void each_of(Fields& fields, std::string_view name, const Read& read);

  std::shared_ptr<const regex::Splitter> pattern(std::string_view text, const std::string& place);
  // One of the two is empty.
  struct Pattern {
    std::string text;
    std::shared_ptr<const regex::Splitter> compiled;
  };
  Pattern pattern_of(Fields& fields);
  Behavior behavior_of(Fields& fields, Behavior otherwise);

  void read_normalizer(const json::Value& value, const std::string& place);
  void read_pre_tokenizer(const json::Value& value, const std::string& place);
  void read_byte_level(Fields& fields);
  std::string metaspace_of(Fields& fields);
  void read_metaspace(Fields& fields);
  void read_decoder(const json::Value& value, const std::string& place);
  void read_post_processor(const json::Value& value, const std::string& place);

  void read_model(const json::Value& value);
  void read_bpe(Fields& fields);
  void read_unigram(Fields& fields);
  void add_text(std::int64_t id, std::string text, const std::string& place);
  void read_added(const json::Value& value, const std::string& place);
  void read_config(const json::Value& value);
  std::optional<TokenId> named_token(Fields& config, std::string_view name);
  std::optional<TokenId> id_of(std::string_view text) const;

  std::vector<std::string> model_texts() const;
  std::vector<BpeModel::Merge> merges(const json::Array& list, const StringTable& texts);
  std::unique_ptr<const Model> model();
  std::string bytes_of(const std::string& text);

  std::optional<Error> error_;
  std::vector<NormalizerStep> normalizer_;
  std::vector<CutStep> pre_tokenizer_;
  bool of_bytes_ = false;  // the pre-tokenizer passes bytes on, in GPT-2's alphabet
  Decoding decoding_;
  std::string template_bos_;  // named by the post-processor

  std::int64_t most_ids_ = 0;       // so that a short file cannot make us allocate much
  std::vector<std::string> texts_;  // by id, as they are written in the file
  std::vector<bool> is_in_model_;   // by id
  std::vector<AddedToken> added_;
  std::vector<bool> is_control_;
  std::map<std::string, TokenId, std::less<>> added_ids_;

  // For the model part:
  bool is_unigram_ = false;
  const json::Array* merges_ = nullptr;  // in the file, which outlives the reader
  std::vector<double> scores_;           // by id, for Unigram
  bool prefers_whole_ = false;
  bool byte_fallback_ = false;
  Fallback fallback_;

  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  bool adds_bos_ = false;
};

JsonReader::Typed JsonReader::typed(const json::Value& value, const std::string& place) {
  Fields fields(&value, place, error_);
  std::string type = fields.needed_string("type");
  return {std::move(fields), std::move(type)};
}

template <typename Read>
void JsonReader::each_of(Fields& fields, std::string_view name, const Read& read) {
  const json::Array& parts = *fields.array(name);
  // Stops at the first error, so that the rest of a faulty list costs nothing.
  for (std::size_t i = 0; i < parts.size() && !error_; ++i) {
    read(parts[i], fields.place_of(name) + "[" + std::to_string(i) + "]");
  }
}

std::shared_ptr<const regex::Splitter> JsonReader::pattern(std::string_view text,
                                                           const std::string& place) {
  auto compiled = regex::Splitter::compile(text);
  if (compiled) return *compiled;
  fail(compiled.error().code, place + ": " + compiled.error().message);
  return nullptr;
}

// Reads {"String": "..."} or {"Regex": "..."}.
JsonReader::Pattern JsonReader::pattern_of(Fields& fields) {
  Fields members(fields.any("pattern"), fields.place_of("pattern"), error_);
  Pattern result;
  const std::optional<std::string> expression = members.string("Regex");
  result.text = members.string("String").value_or("");
  members.finish();
  if (expression) result.compiled = pattern(*expression, members.place());
  if (!expression && result.text.empty()) members.fail(Errc::invalid, "is empty");
  return result;
}

Behavior JsonReader::behavior_of(Fields& fields, Behavior otherwise) {
  static constexpr std::pair<std::string_view, Behavior> kNames[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous},
  };
  const std::optional<std::string> name = fields.string("behavior");
  if (!name) return otherwise;
  for (const auto& [known, behavior] : kNames) {
    if (*name == known) return behavior;
  }
  fields.fail(Errc::unsupported, "has the behavior '" + *name + "', which is not supported");
  return otherwise;
}

// Steps of a sequence are flattened into one list, in their order. A step that is not known is
// refused: a tokenizer that leaves one out would give the model other tokens than it was trained
// on, without any error.
void JsonReader::read_normalizer(const json::Value& value, const std::string& place) {
  static constexpr std::pair<std::string_view, NormalForm> kForms[] = {
      {"NFC", NormalForm::nfc},
      {"NFD", NormalForm::nfd},
      {"NFKC", NormalForm::nfkc},
      {"NFKD", NormalForm::nfkd},
  };
  Typed part = typed(value, place);
  if (error_) return;
  Fields& fields = part.fields;
  NormalizerStep step;
  // The four forms of Unicode are types of their own.
  const auto form = std::find_if(std::begin(kForms), std::end(kForms),
                                 [&](const auto& row) { return row.first == part.type; });
  if (form != std::end(kForms)) {
    step.form = form->second;
  } else if (part.type == "Sequence") {
    each_of(fields, "normalizers",
            [&](const auto& each, const auto& where) { read_normalizer(each, where); });
    return fields.finish();
  } else if (part.type == "Lowercase") {
    step.kind = NormalizerStep::Kind::lowercase;
  } else if (part.type == "Replace") {
    step.kind = NormalizerStep::Kind::replace;
    Pattern found = pattern_of(fields);
    step.text = std::move(found.text);
    step.pattern = std::move(found.compiled);
    step.with = fields.needed_string("content");
  } else if (part.type == "Prepend") {
    step.kind = NormalizerStep::Kind::prepend;
    step.with = fields.needed_string("prepend");
  } else if (part.type == "Strip") {
    step.kind = NormalizerStep::Kind::strip;
    step.left = fields.boolean("strip_left", false);
    step.right = fields.boolean("strip_right", false);
  } else if (part.type == "Precompiled") {
    step.kind = NormalizerStep::Kind::charsmap;
    const auto bytes = from_base64(fields.string("precompiled_charsmap").value_or(""));
    if (!bytes) return fields.fail(Errc::invalid, "has a precompiled_charsmap that is no base64");
    // An empty table changes nothing.
    if (bytes->empty()) return fields.finish();
    Expected<Charsmap> map = Charsmap::parse(*bytes, Charsmap::Unit::cluster);
    if (!map) return fail(map.error().code, place + ": " + map.error().message);
    step.charsmap = std::make_shared<const Charsmap>(std::move(*map));
  } else {
    return refuse(part);
  }
  fields.finish();
  if (normalizer_.size() == kMostSteps) return too_many(fields);
  normalizer_.push_back(std::move(step));
}

// Every kind becomes a pattern and what happens to its matches (CutStep), so the tokenizer itself
// knows three kinds of step. ByteLevel must be the last one, because behind it texts are bytes and
// no patterns match.
void JsonReader::read_pre_tokenizer(const json::Value& value, const std::string& place) {
  Typed part = typed(value, place);
  if (error_) return;
  Fields& fields = part.fields;
  if (of_bytes_ && part.type != "Sequence") {
    return fields.fail(Errc::unsupported, "stands behind ByteLevel, which is not supported");
  }
  CutStep step;
  if (part.type == "Sequence") {
    each_of(fields, "pretokenizers",
            [&](const auto& each, const auto& where) { read_pre_tokenizer(each, where); });
    return fields.finish();
  }
  if (part.type == "ByteLevel") return read_byte_level(fields);
  if (part.type == "Metaspace") return read_metaspace(fields);
  if (part.type == "Split") {
    Pattern found = pattern_of(fields);
    step.text = std::move(found.text);
    step.pattern = std::move(found.compiled);
    step.behavior = behavior_of(fields, Behavior::isolated);
    step.invert = fields.boolean("invert", false);
  } else if (part.type == "Digits") {
    step.pattern = pattern(R"(\p{N})", place);
    step.behavior =
        fields.boolean("individual_digits", false) ? Behavior::isolated : Behavior::contiguous;
  } else if (part.type == "Punctuation") {
    step.pattern = pattern(kPunctuation, place);
    step.behavior = behavior_of(fields, Behavior::isolated);
  } else if (part.type == "Whitespace") {
    step.pattern = pattern(kWordPattern, place);
    step.behavior = Behavior::removed;
    step.invert = true;
  } else if (part.type == "WhitespaceSplit") {
    step.pattern = pattern(R"(\s)", place);
    step.behavior = Behavior::removed;
  } else {
    return refuse(part);
  }
  fields.finish();
  if (pre_tokenizer_.size() == kMostSteps) return too_many(fields);
  pre_tokenizer_.push_back(std::move(step));
}

void JsonReader::read_byte_level(Fields& fields) {
  // The order matters: the space is put before the text is cut.
  if (fields.boolean("add_prefix_space", true)) {
    pre_tokenizer_.push_back({.kind = CutStep::Kind::space, .text = " "});
  }
  if (fields.boolean("use_regex", true)) {
    pre_tokenizer_.push_back({.pattern = pattern(kGpt2Pattern, fields.place())});
  }
  fields.skip("trim_offsets");
  fields.finish();
  of_bytes_ = true;
}

// The one character that stands for a space.
std::string JsonReader::metaspace_of(Fields& fields) {
  std::string replacement = fields.string("replacement").value_or(std::string(kLowerBlock));
  if (utf8::decode(replacement).length != replacement.size() || replacement.empty()) {
    fields.fail(Errc::invalid, "has a replacement that is no character");
  }
  return replacement;
}

// SentencePiece's `▁`: spaces are swapped for it, perhaps one is put before the text, and the text
// is cut before each.
void JsonReader::read_metaspace(Fields& fields) {
  const std::string replacement = metaspace_of(fields);
  // Older files have this instead of prepend_scheme.
  const bool adds_space = fields.boolean("add_prefix_space", true);
  const std::string scheme =
      fields.string("prepend_scheme").value_or(adds_space ? "always" : "never");
  const bool cuts = fields.boolean("split", true);
  fields.skip("str_rep");
  fields.finish();
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    fields.fail(Errc::unsupported,
                "has the prepend_scheme '" + scheme + "', which is not supported");
  }
  pre_tokenizer_.push_back({.kind = CutStep::Kind::swap, .text = replacement});
  if (scheme != "never") {
    pre_tokenizer_.push_back(
        {.kind = CutStep::Kind::space,
         .text = replacement,
         .prefix = scheme == "first" ? CutStep::Prefix::first : CutStep::Prefix::always});
  }
  if (cuts) {
    pre_tokenizer_.push_back({.text = replacement, .behavior = Behavior::merged_with_next});
  }
}

// What makes text of tokens again. Only what Tenon does anyway, or what can be done token by token,
// is accepted, because tokens are turned into text one at a time.
void JsonReader::read_decoder(const json::Value& value, const std::string& place) {
  Typed part = typed(value, place);
  if (error_) return;
  Fields& fields = part.fields;
  if (part.type == "Sequence") {
    each_of(fields, "decoders",
            [&](const auto& each, const auto& where) { read_decoder(each, where); });
  } else if (part.type == "ByteLevel") {
    decoding_.byte_alphabet = true;
    for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.skip(name);
  } else if (part.type == "ByteFallback") {
    decoding_.byte_names = true;
  } else if (part.type == "Replace") {
    const Pattern found = pattern_of(fields);
    if (found.compiled) return fields.fail(Errc::unsupported, "replaces by an expression");
    if (decoding_.replacements.size() == kMostSteps) return too_many(fields);
    decoding_.replacements.emplace_back(found.text, fields.string("content").value_or(""));
  } else if (part.type == "Metaspace") {
    decoding_.replacements.emplace_back(metaspace_of(fields), " ");
    for (const char* name : {"add_prefix_space", "prepend_scheme", "split", "str_rep"}) {
      fields.skip(name);
    }
  } else if (part.type == "Strip") {  // the space that was put before the text
    // Only at the beginning of a whole text, which is never decoded here: tokens are.
    fields.skip("content");
    fields.skip("start");
    if (fields.integer("stop").value_or(0) != 0) {
      fields.fail(Errc::unsupported, "strips the end of the text");
    }
  } else if (part.type != "Fuse") {
    return refuse(part);
  }
  fields.finish();
}

// The post-processor surrounds a text with tokens. Only the token before it is needed.
void JsonReader::read_post_processor(const json::Value& value, const std::string& place) {
  Typed part = typed(value, place);
  if (error_) return;
  Fields& fields = part.fields;
  if (part.type == "Sequence") {
    each_of(fields, "processors",
            [&](const auto& each, const auto& where) { read_post_processor(each, where); });
  } else if (part.type == "TemplateProcessing") {
    const json::Array& single = *fields.array("single");
    fields.skip("pair");
    fields.skip("special_tokens");
    if (!single.empty()) {
      // "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": ...}]
      const json::Value* token = single.front().find("SpecialToken");
      const json::Value* name = token == nullptr ? nullptr : token->find("id");
      if (name != nullptr && name->if_string() != nullptr) template_bos_ = *name->if_string();
    }
  } else if (part.type == "ByteLevel") {
    for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.skip(name);
  } else {
    return refuse(part);
  }
  fields.finish();
}

// Ids come from the file, so they are bounded by the number of entries before the table grows to
// them. Two texts for one id are an error; the same text twice is not.
void JsonReader::add_text(std::int64_t id, std::string text, const std::string& place) {
  if (id < 0) return fail(Errc::invalid, place + " has the id " + std::to_string(id));
  if (id >= most_ids_) {
    return fail(Errc::limit_exceeded,
                place + " has the id " + std::to_string(id) + ", too many for so few tokens");
  }
  const auto index = static_cast<std::size_t>(id);
  // Ids come in any order, and some are never given: their text stays empty.
  if (index >= texts_.size()) texts_.resize(index + 1);
  if (!texts_[index].empty() && texts_[index] != text) {
    return fail(Errc::invalid, place + " gives the id " + std::to_string(id) + " to '" + text +
                                   "', and '" + texts_[index] + "' has it");
  }
  texts_[index] = std::move(text);
}

// Old files name no type; a list of merges tells that it is BPE.
void JsonReader::read_model(const json::Value& value) {
  Fields fields(&value, "model", error_);
  std::string type = fields.string("type").value_or("");
  if (type.empty()) type = value.find("merges") != nullptr ? "BPE" : "without a name";
  if (error_) return;
  if (type == "BPE") {
    read_bpe(fields);
  } else if (type == "Unigram") {
    read_unigram(fields);
  } else {
    return fields.fail(Errc::unsupported, "has the type '" + type + "', which is not supported");
  }
  fields.finish();
  if (texts_.empty()) fields.fail(Errc::invalid, "has no vocabulary");
  is_in_model_.resize(texts_.size());
  // Tokens that are added later have no part in merges.
  for (std::size_t i = 0; i < texts_.size(); ++i) is_in_model_[i] = !texts_[i].empty();
}

// Options that would change the tokens and are not implemented are refused rather than ignored.
void JsonReader::read_bpe(Fields& fields) {
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!fields.string(name).value_or("").empty()) {
      return fields.fail(Errc::unsupported,
                         std::string("has a ") + name + ", which is not supported");
    }
  }
  // Merges that are left out by chance, for training.
  const json::Value* dropout = fields.any("dropout");
  if (dropout != nullptr && !(dropout->if_number() && dropout->if_number()->to_double() == 0)) {
    return fields.fail(Errc::unsupported, "has a dropout, which is not supported");
  }
  prefers_whole_ = fields.boolean("ignore_merges", false);
  byte_fallback_ = fields.boolean("byte_fallback", false);
  fallback_.fuses_unknown = fields.boolean("fuse_unk", false);
  const std::string unknown = fields.string("unk_token").value_or("");
  merges_ = fields.array("merges");

  const json::Value* vocab = fields.any("vocab");
  if (vocab == nullptr || vocab->if_object() == nullptr) {
    return fields.fail(Errc::invalid, "has no object 'vocab'");
  }
  texts_.reserve(vocab->if_object()->size());
  for (const json::Member& member : *vocab->if_object()) {
    const json::Number* number = member.value.if_number();
    const std::optional<std::int64_t> id = number ? number->to_int64() : std::nullopt;
    if (!id) return fields.fail(Errc::invalid, "has no id for '" + member.key + "'");
    add_text(*id, member.key, "model.vocab");
    if (error_) return;
    if (!unknown.empty() && member.key == unknown) fallback_.unknown = static_cast<TokenId>(*id);
  }
  if (!unknown.empty() && !fallback_.unknown) {
    fields.fail(Errc::invalid, "has the unk_token '" + unknown + "', which is not in its vocab");
  }
}

void JsonReader::read_unigram(Fields& fields) {
  is_unigram_ = true;
  byte_fallback_ = fields.boolean("byte_fallback", false);
  const json::Array& vocab = *fields.array("vocab");
  for (std::size_t i = 0; i < vocab.size() && !error_; ++i) {
    const std::string place = "model.vocab[" + std::to_string(i) + "]";
    const json::Array* pair = vocab[i].if_array();
    const bool is_pair = pair != nullptr && pair->size() == 2 &&
                         (*pair)[0].if_string() != nullptr && (*pair)[1].if_number() != nullptr;
    if (!is_pair) return fail(Errc::invalid, place + " is no pair of a text and a score");
    // A search costs as much as the longest token, so that is bounded.
    if ((*pair)[0].if_string()->size() > AddedToken::kLongest) {
      return fail(Errc::limit_exceeded,
                  place + " is longer than " + std::to_string(AddedToken::kLongest) + " bytes");
    }
    add_text(static_cast<std::int64_t>(i), *(*pair)[0].if_string(), place);
    scores_.push_back((*pair)[1].if_number()->to_double());
  }
  const std::optional<std::int64_t> unknown = fields.integer("unk_id");
  if (!unknown) return;
  if (*unknown < 0 || static_cast<std::size_t>(*unknown) >= scores_.size()) {
    return fields.fail(Errc::invalid, "has an unk_id that is no id");
  }
  fallback_.unknown = static_cast<TokenId>(*unknown);
}

void JsonReader::read_added(const json::Value& value, const std::string& place) {
  Fields fields(&value, place, error_);
  const std::optional<std::int64_t> id = fields.integer("id");
  AddedToken token;
  token.text = fields.needed_string("content");
  token.is_word = fields.boolean("single_word", false);
  token.strips_left = fields.boolean("lstrip", false);
  token.strips_right = fields.boolean("rstrip", false);
  const bool is_special = fields.boolean("special", false);
  // The package's default: a special token is searched for in the text as it is.
  token.is_normalized = fields.boolean("normalized", !is_special);
  fields.finish();
  if (!id) fields.fail(Errc::invalid, "has no id");
  if (token.text.empty()) fields.fail(Errc::invalid, "is empty");
  if (token.text.size() > AddedToken::kLongest) {
    fields.fail(Errc::limit_exceeded,
                "is longer than " + std::to_string(AddedToken::kLongest) + " bytes");
  }
  if (error_) return;
  token.is_control = is_special || looks_like_marker(token.text);
  add_text(*id, token.text, place);
  if (error_) return;
  token.id = static_cast<TokenId>(*id);
  added_.push_back(std::move(token));
}

// Linear, and asked for a few names only.
std::optional<TokenId> JsonReader::id_of(std::string_view text) const {
  if (const auto found = added_ids_.find(text); found != added_ids_.end()) return found->second;
  const auto found = std::find(texts_.begin(), texts_.end(), text);
  if (found == texts_.end()) return std::nullopt;
  return static_cast<TokenId>(found - texts_.begin());
}

// Reads "bos_token": "<s>", or an object as in added_tokens, without the id.
std::optional<TokenId> JsonReader::named_token(Fields& config, std::string_view name) {
  const json::Value* member = config.any(name);
  if (member == nullptr) return std::nullopt;
  const json::Value* text = member->if_object() != nullptr ? member->find("content") : member;
  if (text == nullptr || text->if_string() == nullptr) {
    config.fail(Errc::invalid, "has a '" + std::string(name) + "' that is no text");
    return std::nullopt;
  }
  const std::optional<TokenId> id = id_of(*text->if_string());
  if (!id) {
    config.fail(Errc::invalid, "has the " + std::string(name) + " '" + *text->if_string() +
                                   "', which is not in the vocabulary");
  }
  return id;
}

void JsonReader::read_config(const json::Value& value) {
  if (!template_bos_.empty()) {
    bos_ = id_of(template_bos_);
    // A template that names a token which is not there adds none.
    adds_bos_ = bos_.has_value();
  }
  if (value.is_null()) return;
  Fields config(&value, "tokenizer_config.json", error_);
  if (const auto bos = named_token(config, "bos_token")) bos_ = bos;
  eos_ = named_token(config, "eos_token");
  // The configuration beside the file overrules it, as in transformers.
  adds_bos_ = config.boolean("add_bos_token", adds_bos_);
}

// The texts that the model part sees; empty for tokens that it never sees.
std::vector<std::string> JsonReader::model_texts() const {
  std::vector<std::string> texts(texts_.size());
  for (std::size_t i = 0; i < is_in_model_.size(); ++i) {
    if (!is_in_model_[i]) continue;
    // A text that is not in the alphabet of bytes is one that no piece can become.
    texts[i] = of_bytes_ ? from_byte_alphabet(texts_[i]).value_or("") : texts_[i];
  }
  return texts;
}

// Reads pairs of texts, or "left right". Merges that make a control token are left out.
std::vector<BpeModel::Merge> JsonReader::merges(const json::Array& list, const StringTable& texts) {
  std::vector<BpeModel::Merge> merges;
  merges.reserve(list.size());
  const auto find = [&](std::string_view text) {
    if (!of_bytes_) return texts.find(text);
    const std::optional<std::string> bytes = from_byte_alphabet(text);
    return bytes ? texts.find(*bytes) : std::nullopt;
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = "model.merges[" + std::to_string(i) + "]";
    std::string_view left;
    std::string_view right;
    if (const std::string* both = list[i].if_string()) {
      const std::size_t space = both->find(' ');
      if (space != std::string::npos) {
        left = std::string_view(*both).substr(0, space);
        right = std::string_view(*both).substr(space + 1);
      }
    } else if (const json::Array* pair = list[i].if_array(); pair != nullptr && pair->size() == 2 &&
                                                             (*pair)[0].if_string() != nullptr &&
                                                             (*pair)[1].if_string() != nullptr) {
      left = *(*pair)[0].if_string();
      right = *(*pair)[1].if_string();
    }
    if (left.empty() || right.empty()) {
      fail(Errc::invalid, place + " is no pair of texts");
      return {};
    }
    const auto left_id = find(left);
    const auto right_id = find(right);
    const auto result = find(std::string(left) += right);
    if (!left_id || !right_id || !result) {
      fail(Errc::invalid, place + " merges '" + std::string(left) + "' and '" + std::string(right) +
                              "', which are not in the vocabulary or make "
                              "something that is not");
      return {};
    }
    // Else ordinary text could become a control token.
    if (is_control_[static_cast<std::size_t>(*result)]) continue;
    merges.push_back({*left_id, *right_id, *result, static_cast<std::uint32_t>(i)});
  }
  return merges;
}

std::unique_ptr<const Model> JsonReader::model() {
  const std::vector<std::string> texts = model_texts();
  if (byte_fallback_) fallback_.bytes = byte_tokens(texts_);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<bool> findable(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) findable[i] = !texts[i].empty();
  std::vector<BpeModel::Merge> found;
  // Merges may go through tokens that a piece must not become, so they are read with all texts.
  if (!is_unigram_) found = merges(*merges_, StringTable(views, findable));
  if (error_) return nullptr;
  for (std::size_t i = 0; i < texts.size(); ++i) {  // the text "<0x41>" is not the byte
    if (is_control_[i] || (fallback_.bytes && byte_of_name(texts[i]))) findable[i] = false;
  }
  StringTable table(views, findable);
  if (is_unigram_) {
    scores_.resize(texts.size());
    return std::make_unique<const UnigramModel>(std::move(table), std::move(scores_), fallback_);
  }
  return std::make_unique<const BpeModel>(
      std::move(table), found,
      BpeModel::Options{
          .of_bytes = of_bytes_, .prefers_whole = prefers_whole_, .fallback = fallback_});
}

std::string JsonReader::bytes_of(const std::string& text) {
  if (decoding_.byte_alphabet) return from_byte_alphabet(text).value_or(text);
  if (decoding_.byte_names) {
    if (const auto byte = byte_of_name(text)) return {static_cast<char>(*byte)};
  }
  std::string bytes = text;
  for (const auto& [what, with] : decoding_.replacements) {
    bytes = with_replaced(bytes, what, with);
    if (bytes.size() <= text.size() * kMostGrowth) continue;
    fail(Errc::limit_exceeded,
         "decoder: it makes a token more than " + std::to_string(kMostGrowth) + " times as long");
    return "";
  }
  return bytes;
}

// Files have gaps between their ids, but not wide ones.
std::int64_t most_ids(const json::Value& file) {
  constexpr std::size_t kGaps = 4096;
  std::size_t tokens = 0;
  const json::Value* model = file.find("model");
  const json::Value* vocab = model == nullptr ? nullptr : model->find("vocab");
  for (const json::Value* list : {vocab, file.find("added_tokens")}) {
    if (list == nullptr) continue;
    if (list->if_object() != nullptr) tokens += list->if_object()->size();
    if (list->if_array() != nullptr) tokens += list->if_array()->size();
  }
  return std::min(static_cast<std::int64_t>(4 * tokens + kGaps), kMostTokens);
}

Expected<std::shared_ptr<const Tokenizer>> JsonReader::read(const json::Value& file,
                                                            const json::Value& config) {
  Fields fields(&file, "", error_);
  most_ids_ = most_ids(file);
  for (const char* name : {"version", "truncation", "padding"}) fields.skip(name);
  if (const auto* part = fields.any("normalizer")) read_normalizer(*part, "normalizer");
  if (const auto* part = fields.any("pre_tokenizer")) read_pre_tokenizer(*part, "pre_tokenizer");
  if (const auto* part = fields.any("decoder")) read_decoder(*part, "decoder");
  if (const auto* part = fields.any("post_processor")) read_post_processor(*part, "post_processor");
  if (const auto* part = fields.any("model")) {
    read_model(*part);
  } else {
    fields.fail(Errc::invalid, "has no model");
  }
  each_of(fields, "added_tokens",
          [&](const auto& each, const auto& where) { read_added(each, where); });
  fields.finish();
  if (error_) return Unexpected(*error_);
  is_in_model_.resize(texts_.size());
  for (const AddedToken& token : added_) added_ids_.emplace(token.text, token.id);
  read_config(config);

  // A token that the file names as the begin or end of a text is a control token, whether it is
  // listed or not.
  for (const auto& named : {bos_, eos_}) {
    if (!named || added_ids_.contains(texts_[static_cast<std::size_t>(*named)])) continue;
    added_.push_back(
        {.id = *named, .text = texts_[static_cast<std::size_t>(*named)], .is_control = true});
  }
  // By id; empty for tokens of the model part.
  std::vector<std::string_view> added_texts(texts_.size());
  for (const AddedToken& token : added_) {
    added_texts[static_cast<std::size_t>(token.id)] = token.text;
  }
  std::vector<TokenId> ends = turn_ends(added_texts);
  if (eos_) ends.push_back(*eos_);
  is_control_.resize(texts_.size());
  for (AddedToken& token : added_) {
    // A token that ends a turn must not be written by a user, even if the file calls it an ordinary
    // one.
    token.is_control |= std::find(ends.begin(), ends.end(), token.id) != ends.end();
    if (token.is_control) is_control_[static_cast<std::size_t>(token.id)] = true;
  }

  TextTokenizer::Parts parts;
  parts.model = model();
  if (error_) return Unexpected(*error_);
  parts.bytes.resize(texts_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    // Added tokens are written as they are, and not in the alphabet of bytes.
    parts.bytes[i] = added_texts[i].empty() ? bytes_of(texts_[i]) : std::string(added_texts[i]);
    if (error_) return Unexpected(*error_);
  }
  parts.is_control = std::move(is_control_);
  parts.ends = std::move(ends);
  parts.added = std::move(added_);
  parts.normalizer = Normalizer(std::move(normalizer_));
  parts.pre_tokenizer = PreTokenizer(std::move(pre_tokenizer_));
  parts.bos = bos_;
  parts.eos = eos_;
  parts.adds_bos = adds_bos_;
  return std::make_shared<const TextTokenizer>(std::move(parts));
}

constexpr json::ParseOptions kParse{.max_depth = 64};

}  // namespace

Expected<std::shared_ptr<const Tokenizer>> parse_tokenizer_json(std::string_view text,
                                                                std::string_view config) {
  const Expected<json::Value> file = json::parse(text, kParse);
  if (!file) return Unexpected(file.error());
  json::Value settings;
  if (!config.empty()) {
    Expected<json::Value> parsed = json::parse(config, kParse);
    if (!parsed) {
      return Unexpected(
          Error{parsed.error().code, "tokenizer_config.json: " + parsed.error().message});
    }
    settings = std::move(*parsed);
  }
  return JsonReader().read(*file, settings);
}

}  // namespace tenon::vocab
