#include "tenon/capi/vocab.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tenon/batch/grammar_request.h"
#include "tenon/batch/line.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/token_table.h"
#include "tenon/config/model_format.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/lines.h"
#include "tenon/vocab/tokenizer_file.h"

// What a vocabulary's handle has besides the tokens: the index over their bytes, which all grammars
// share, the cache of grammars by their request's text, and for each format the constraints of
// calls. All are made when they are first needed. Functions that make a vocabulary differ in where
// the tokenizer comes from; give() makes the handle.

namespace tenon::capi {
namespace {

namespace fs = std::filesystem;
using vocab::TokenId;

// For the grammars of one vocabulary, and for those of the calls in one format.
constexpr std::size_t kCacheBytes = std::size_t{128} << 20U;
constexpr std::size_t kMostFormats = 8;

Status check_request(const json::Object& request) {
  if (request.contains("grammar")) return json::check_members(request, {"grammar", "syntax"});
  return json::check_members(
      request, {"schema", "draft", "documents", "assert_format", "whitespace", "property_order",
                "unicode_escapes", "lenient"});
}

// The rules of a request of tenon_grammar_compile(), in any notation: `{"schema": {...}}` or
// `{"grammar": "root ::= ...", "syntax": "gbnf"}`.
Expected<grammar::Rules> rules_of(std::string_view text) {
  auto request = json_in({text.data(), text.size()}, "request");
  if (!request) return Unexpected(request.error());
  if (request->if_object() == nullptr) {
    return Unexpected(Error::at(Errc::invalid, "request", "must be a JSON object"));
  }
  const json::Object& members = *request->if_object();
  if (const Status known = check_request(members); !known) return Unexpected(known.error());
  return batch::requested_rules(members, {.whitespace = grammar::JsonOptions::Whitespace::any});
}

// tokenizer.json has priority, because it has more information than a GGUF file.
Expected<fs::path> tokenizer_in(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return path;
  if (fs::exists(path / "tokenizer.json", failed)) return path / "tokenizer.json";
  std::optional<fs::path> first;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, failed)) {
    if (entry.path().extension() != ".gguf") continue;
    if (!first || entry.path() < *first) first = entry.path();
  }
  if (first) return *first;
  return Unexpected(Error{Errc::invalid, path.string() +
                                             ": there is neither a tokenizer.json nor a GGUF file "
                                             "in this folder"});
}

Expected<TokenId> id_of(const json::Value& value, std::string_view member) {
  const auto id = value.if_number() != nullptr ? value.if_number()->to_int64() : std::nullopt;
  if (!id || !std::in_range<TokenId>(*id) || *id < 0) {
    return Unexpected(Error::at(Errc::invalid, std::string(member), "must be ids of tokens"));
  }
  return static_cast<TokenId>(*id);
}

// `{"pattern": "...", "special": {"<|endoftext|>": 100257}, "bos", "eos", "adds_bos"}`. A file of
// tiktoken has the bytes of text tokens only, so all of this must be said.
Expected<vocab::TiktokenOptions> tiktoken_options(tenon_text text) {
  const auto members = object_in(text, "options", {"pattern", "special", "bos", "eos", "adds_bos"});
  if (!members) return Unexpected(members.error());
  vocab::TiktokenOptions options;
  for (const auto& [name, member] :
       {std::pair("pattern", &options.pattern), std::pair("bos", &options.bos),
        std::pair("eos", &options.eos)}) {
    auto given = string_member(*members, name);
    if (!given) return Unexpected(given.error());
    *member = *std::move(given);
  }
  if (options.pattern.empty()) {
    return Unexpected(
        Error::at(Errc::invalid, "pattern", "is missing: the file does not say how a text is cut"));
  }
  const auto adds_bos = batch::flag(*members, "adds_bos", false);
  if (!adds_bos) return Unexpected(adds_bos.error());
  options.adds_bos = *adds_bos;
  const json::Value* const special = members->find("special");
  if (special == nullptr) return options;
  if (special->if_object() == nullptr) {
    return Unexpected(Error::at(Errc::invalid, "special", "must be an object of ids by text"));
  }
  for (const json::Member& one : *special->if_object()) {
    const auto id = id_of(one.value, "special");
    if (!id) return Unexpected(id.error());
    options.special.push_back({one.key, *id});
  }
  return options;
}

// Makes the masks after each byte of a text in advance. The index keeps their parts for all
// grammars, and strings, numbers and lists are the same under nearly every schema: the masks of a
// first text take a third less time (bench/python_figures.py), for 1 ms beside the 90 that an index
// of 128,000 tokens takes.
void look_at_json(const std::shared_ptr<grammar::VocabIndex>& index) {
  constexpr std::string_view kRequest =
      R"({"schema": {"type": "object", "additionalProperties": false, "properties": {
          "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "number"},
          "d": {"type": "array", "items": {"type": "string"}}, "e": {"type": "boolean"}}}})";
  constexpr std::string_view kText =
      R"({"a": "b c", "b": 12, "c": 1.5, "d": ["x", "y"], "e": true})";
  auto rules = rules_of(kRequest);
  if (!rules) return;
  const auto grammar = grammar::Grammar::make(
      [rules = *std::move(rules), index](grammar::Machine& machine) {
        return grammar::add_rules(machine, rules, index->vocab(), &machine.relaxed());
      },
      index);
  if (!grammar) return;
  grammar::Matcher matcher(*grammar);
  std::vector<std::uint32_t> mask(tenon_mask_words(index->vocab().size()));
  for (std::size_t i = 0; i < kText.size(); ++i) {
    if (!matcher.fill_mask(mask) || !matcher.accept_bytes(kText.substr(i, 1))) return;
  }
}

Status give(std::shared_ptr<const vocab::Tokenizer> tokenizer, std::vector<TokenId> ends,
            tenon_vocab** vocab) {
  auto vocabulary = Vocabulary::make(std::move(tokenizer), std::move(ends));
  if (!vocabulary) return Unexpected(vocabulary.error());
  *vocab = new tenon_vocab{*std::move(vocabulary)};
  return {};
}

}  // namespace

Expected<std::shared_ptr<const Vocabulary>> Vocabulary::make(
    std::shared_ptr<const vocab::Tokenizer> tokenizer, std::vector<TokenId> more_ends) {
  // Vocab::of() adds them to the tokenizer's own.
  std::erase_if(more_ends, [&](TokenId id) { return tokenizer->ends_generation(id); });
  auto tokens = vocab::Vocab::of(*tokenizer, std::move(more_ends));
  if (!tokens) return Unexpected(tokens.error());
  return std::shared_ptr<const Vocabulary>(
      new Vocabulary(std::move(tokenizer), *std::move(tokens)));
}

// Made at the first grammar and not with the vocabulary: programs that only encode or parse do
// without.
const std::shared_ptr<grammar::VocabIndex>& Vocabulary::index() const {
  std::call_once(index_made_, [this] {
    index_ = std::make_shared<grammar::VocabIndex>(tokens_);
    cache_ = std::make_unique<grammar::GrammarCache>(index_, kCacheBytes);
    look_at_json(index_);
  });
  return index_;
}

Status Vocabulary::check_ends() const {
  if (!tokens_->ends().empty()) return {};
  return Unexpected(
      Error{Errc::invalid,
            "the vocabulary does not say with which token a text ends: name it by with_ends()"});
}

// The text of the request is the key of the cache, so the same request in another order of members
// is compiled once more.
Expected<std::shared_ptr<grammar::Grammar>> Vocabulary::grammar_of(std::string_view request) const {
  if (const Status ready = check_ends(); !ready) return Unexpected(ready.error());
  const auto& index = this->index();
  // The request is read once, at the first use: the grammar may be evicted and made again.
  const auto read = std::make_shared<std::optional<grammar::Rules>>();
  const auto build = [text = std::string(request), read,
                      index](grammar::Machine& machine) -> Expected<grammar::FrameId> {
    if (!*read) {
      auto rules = rules_of(text);
      if (!rules) return Unexpected(rules.error());
      *read = *std::move(rules);
    }
    return grammar::add_rules(machine, **read, index->vocab(), &machine.relaxed());
  };
  return cache_->get(request, build);
}

// The constraints of the formats that were used last are kept, since they hold the cache of
// compiled grammars.
std::shared_ptr<const chat::Constraints> Vocabulary::constraints_of(
    const std::shared_ptr<const format::Format>& format) const {
  const auto& index = this->index();
  const std::lock_guard lock(mutex_);
  const auto known =
      std::ranges::find(constraints_, format, &decltype(constraints_)::value_type::first);
  if (known != constraints_.end()) {
    constraints_.splice(constraints_.begin(), constraints_, known);
    return constraints_.front().second;
  }
  auto made = std::make_shared<const chat::Constraints>(
      format, *tokenizer_, chat::Constraints::Options{.cache_bytes = kCacheBytes, .index = index});
  constraints_.emplace_front(format, std::move(made));
  if (constraints_.size() > kMostFormats) constraints_.pop_back();
  return constraints_.front().second;
}

}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace vocab = tenon::vocab;
using tenon::Errc;
using tenon::Error;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_vocab_load(tenon_text path, tenon_vocab** vocab) {
  capi::clear(vocab);
  return capi::guarded({{vocab, "vocab"}}, [&]() -> Status {
    constexpr std::string_view kKinds = "a GGUF file, a tokenizer.json, or a folder that has one";
    if (Status checked = capi::check_path(path, kKinds); !checked) return checked;
    const auto file = capi::tokenizer_in(capi::view(path));
    if (!file) return Unexpected(file.error());
    auto tokenizer = vocab::load_tokenizer(*file);
    if (!tokenizer) return Unexpected(tokenizer.error());
    // A GGUF file says by itself which tokens end a turn; beside a tokenizer.json the model's
    // folder does.
    const bool is_gguf = file->extension() == ".gguf";
    auto ends = is_gguf ? std::vector<vocab::TokenId>()
                        : tenon::config::declared_ends(tenon::config::folder_of(file->string()));
    // A model's configuration may name ids that its tokenizer does not have.
    std::erase_if(ends, [&](vocab::TokenId id) {
      return static_cast<std::size_t>(id) >= (*tokenizer)->size();
    });
    return capi::give(*std::move(tokenizer), std::move(ends), vocab);
  });
}

tenon_error* tenon_vocab_parse(tenon_text tokenizer_json, tenon_text config, tenon_vocab** vocab) {
  capi::clear(vocab);
  return capi::guarded({{vocab, "vocab"}}, [&]() -> Status {
    auto tokenizer = vocab::parse_tokenizer_json(capi::view(tokenizer_json), capi::view(config));
    if (!tokenizer) return Unexpected(tokenizer.error());
    if (Status checked = vocab::check_tokenizer(**tokenizer); !checked) return checked;
    return capi::give(*std::move(tokenizer), {}, vocab);
  });
}

tenon_error* tenon_vocab_parse_tiktoken(tenon_text file, tenon_text options, tenon_vocab** vocab) {
  capi::clear(vocab);
  return capi::guarded({{vocab, "vocab"}}, [&]() -> Status {
    const auto given = capi::tiktoken_options(options);
    if (!given) return Unexpected(given.error());
    auto tokenizer = vocab::parse_tiktoken(capi::view(file), *given);
    if (!tokenizer) return Unexpected(tokenizer.error());
    if (Status checked = vocab::check_tokenizer(**tokenizer); !checked) return checked;
    return capi::give(*std::move(tokenizer), {}, vocab);
  });
}

// For an engine with a tokenizer of its own: the bytes of its tokens are all that grammars and
// parsers need. Texts cannot be encoded by such a vocabulary.
tenon_error* tenon_vocab_new(const tenon_token* tokens, size_t count, const int32_t* ends,
                             size_t end_count, tenon_vocab** vocab) {
  capi::clear(vocab);
  return capi::guarded({{vocab, "vocab"}}, [&]() -> Status {
    if (tokens == nullptr && count > 0) return Unexpected(capi::null_array("tokens"));
    if (ends == nullptr && end_count > 0) return Unexpected(capi::null_array("ends"));
    for (std::size_t i = 0; i < end_count; ++i) {
      if (ends[i] >= 0 && static_cast<std::size_t>(ends[i]) < count) continue;
      return Unexpected(Error{Errc::invalid,
                              "ends[" + std::to_string(i) + "] is " + std::to_string(ends[i]) +
                                  ", and there are " + std::to_string(count) + " tokens",
                              "ends[" + std::to_string(i) + "]"});
    }
    std::vector<vocab::Token> table(count);
    for (std::size_t id = 0; id < count; ++id) {
      const bool is_unused = tokens[id].kind == TENON_TOKEN_UNUSED;
      if (!is_unused) table[id].bytes = capi::view(tokens[id].bytes);
      table[id].kind = is_unused                                ? vocab::Token::Kind::unused
                       : tokens[id].kind == TENON_TOKEN_CONTROL ? vocab::Token::Kind::control
                                                                : vocab::Token::Kind::text;
    }
    std::vector<vocab::TokenId> all(ends, ends + end_count);
    auto tokenizer = std::make_shared<const capi::TokenTable>(std::move(table), all);
    return capi::give(std::move(tokenizer), std::move(all), vocab);
  });
}

tenon_error* tenon_vocab_with_ends(const tenon_vocab* vocab, const int32_t* ends, size_t end_count,
                                   tenon_vocab** with_ends) {
  capi::clear(with_ends);
  // The new vocabulary has a cache of its own; the tokenizer is shared.
  return capi::guarded({{vocab, "vocab"}, {with_ends, "with_ends"}}, [&]() -> Status {
    if (ends == nullptr && end_count > 0) return Unexpected(capi::null_array("ends"));
    // The ends add up: those of the tokenizer, of earlier calls, and these.
    const auto known = vocab->vocabulary->tokens().ends();
    std::vector<vocab::TokenId> all(known.begin(), known.end());
    for (const vocab::TokenId id : std::span(ends, end_count)) {
      if (std::ranges::find(all, id) == all.end()) all.push_back(id);
    }
    return capi::give(vocab->vocabulary->shared_tokenizer(), std::move(all), with_ends);
  });
}

void tenon_vocab_free(tenon_vocab* vocab) {
  delete vocab;
}

size_t tenon_vocab_size(const tenon_vocab* vocab) {
  return vocab == nullptr ? 0 : vocab->vocabulary->tokens().size();
}

tenon_token tenon_vocab_token(const tenon_vocab* vocab, int32_t id) {
  if (vocab == nullptr || !vocab->vocabulary->has(id)) {
    return {capi::text_of({}), TENON_TOKEN_UNUSED};
  }
  const vocab::Vocab& tokens = vocab->vocabulary->tokens();
  return {capi::text_of(tokens.bytes(id)), static_cast<tenon_token_kind>(tokens.kind(id))};
}

const int32_t* tenon_vocab_ends(const tenon_vocab* vocab, size_t* count) {
  capi::clear(count);
  if (vocab == nullptr) return nullptr;
  const auto ends = vocab->vocabulary->tokens().ends();
  if (count != nullptr) *count = ends.size();
  return ends.data();
}

int32_t tenon_vocab_bos(const tenon_vocab* vocab) {
  return vocab == nullptr ? -1 : vocab->vocabulary->tokenizer().bos().value_or(-1);
}

int32_t tenon_vocab_control(const tenon_vocab* vocab, tenon_text name) {
  if (vocab == nullptr) return -1;
  return capi::guarded_or(-1, [&] {
    return vocab->vocabulary->tokenizer().control_token(capi::view(name)).value_or(-1);
  });
}

tenon_error* tenon_vocab_encode(const tenon_vocab* vocab, tenon_text text, int controls,
                                int32_t* ids, size_t capacity, size_t* count) {
  capi::clear(count);
  return capi::guarded({{vocab, "vocab"}, {count, "count"}}, [&]() -> Status {
    std::vector<vocab::TokenId> encoded;
    const auto allowed = controls != 0 ? vocab::Controls::on : vocab::Controls::off;
    Status done = vocab->vocabulary->tokenizer().encode(capi::view(text), allowed, true, encoded);
    if (!done) return done;
    return capi::write_ids(encoded, ids, capacity, count);
  });
}

tenon_error* tenon_vocab_decode(const tenon_vocab* vocab, const int32_t* ids, size_t count,
                                tenon_string** text) {
  capi::clear(text);
  return capi::guarded({{vocab, "vocab"}, {text, "text"}}, [&]() -> Status {
    if (ids == nullptr && count > 0) return Unexpected(capi::null_array("ids"));
    std::string decoded;
    for (const vocab::TokenId id : std::span(ids, count)) {
      if (!vocab->vocabulary->has(id)) {
        return Unexpected(Error{
            Errc::invalid, "the token " + std::to_string(id) + " is not in the vocabulary of " +
                               std::to_string(tenon_vocab_size(vocab)) + " tokens"});
      }
      decoded += vocab->vocabulary->tokens().bytes(id);
    }
    *text = capi::new_string(std::move(decoded));
    return {};
  });
}
