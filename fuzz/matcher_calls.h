#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz.h"

#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/machine/matcher.h"

/// What fuzz targets of grammars share: calls of a matcher in any order, held against a matcher
/// that has read the same afresh.
namespace tenon::fuzz {

using grammar::Grammar;
using grammar::Matcher;
using vocab::TokenId;

/// The bytes, what JSON often has side by side, an end token and another control token.
inline const std::shared_ptr<grammar::VocabIndex>& small_index() {
  static const auto made = [] {
    std::vector<vocab::Token> tokens(256);
    for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
    for (const char* text :
         {"{\"", "\":",    "\": ", "\",",  "\"}",   "},",  "]}",   "],",          ", \"", "abc",
          "ab",  "12",     "1.",   "null", "true}", "\\n", "\\\"", "\\u00",       "é",    "  ",
          "a\"", "\\/b\"", "a\":", "-1",   "0,",    "[]",  "{}",   "\xC3\xA9\xC3"}) {
      tokens.push_back({text});
    }
    tokens.push_back({"<|end|>", vocab::Token::Kind::control});
    tokens.push_back({"<|other|>", vocab::Token::Kind::control});
    const TokenId end = static_cast<TokenId>(tokens.size()) - 2;
    return std::make_shared<grammar::VocabIndex>(*vocab::Vocab::make(std::move(tokens), {end}));
  }();
  return made;
}

/// Two bytes a call: accept, rollback, a fork, a draft, forced bytes, and mostly masks.
class Calls {
 public:
  Calls(const std::shared_ptr<Grammar>& grammar, std::shared_ptr<Grammar> fresh)
      : matcher_(grammar), fresh_(std::move(fresh)), mask_(grammar::mask_words(size())) {}

  /// False: a limit has been reached, after which nothing is promised.
  bool call(std::uint8_t what, std::uint8_t argument) {
    const auto token = static_cast<TokenId>((argument * 7U + what) % (size() + 3)) - 1;
    switch (what % 8) {
      case 0:
        matcher_.rollback(take_back(argument));
        return true;
      case 1: {
        Matcher fork = matcher_;
        static_cast<void>(fork.accept(token));
        fork.rollback(fork.accepted_count());
        return true;
      }
      case 2:
        return judge_draft(
            {static_cast<TokenId>(argument), token, '"', static_cast<TokenId>(what)});
      case 3:
        return fill_mask(argument);
      case 4: {
        const std::string forced = matcher_.forced_bytes(argument);
        promise(forced.size() <= argument, "no more than was asked for");
        return forced.empty() || accept_bytes(forced);
      }
      default:  // mostly, so that texts get somewhere: any allowed token
        return fill_mask(argument) && accept_allowed(argument);
    }
  }

 private:
  static std::size_t size() { return small_index()->vocab().size(); }

  std::size_t take_back(std::size_t wanted) {
    const std::size_t count = std::min(wanted % 8, read_.size());
    read_.resize(read_.size() - count);
    return count;
  }

  bool accept_bytes(const std::string& bytes) {
    promise(matcher_.accept_bytes(bytes), "what is forced can be read");
    read_.push_back({-1, bytes});
    return true;
  }

  bool judge_draft(const std::vector<TokenId>& draft) {
    const std::size_t good = matcher_.validate_draft(draft);
    std::size_t taken = 0;
    while (taken < draft.size() && matcher_.accept(draft[taken])) ++taken;
    promise(good == taken, "a draft is as long as what is accepted of it");
    matcher_.rollback(taken);
    return true;
  }

  bool fill_mask(std::uint8_t argument) {
    Matcher replay(fresh_);
    for (const Read& each : read_) {
      const bool is_read =
          each.token < 0 ? replay.accept_bytes(each.bytes) : replay.accept(each.token);
      if (!is_read) return false;  // a limit: the other grammar's was further away
    }
    std::vector<std::uint32_t> other(mask_.size());
    if (!matcher_.fill_mask(mask_) || !replay.fill_mask(other)) return false;
    promise(mask_ == other, "the mask is that of a fresh matcher");
    promise(matcher_.is_accepting() == replay.is_accepting(), "so is whether the text may end");
    const auto token = static_cast<TokenId>((argument * 5U) % size());
    promise(replay.accept(token) == is_allowed(token), "the mask is what can be accepted");
    return true;
  }

  bool accept_allowed(std::uint8_t argument) {
    for (std::size_t i = 0; i < size(); ++i) {
      const auto token = static_cast<TokenId>((argument * 31U + i) % size());
      if (!is_allowed(token)) continue;
      promise(matcher_.accept(token), "what is in the mask can be accepted");
      read_.push_back({token, {}});
      return true;
    }
    return matcher_.is_finished();
  }

  [[nodiscard]] bool is_allowed(TokenId token) const {
    const auto bit = static_cast<std::uint32_t>(token);
    return (mask_[bit / 32] >> bit % 32 & 1U) != 0;
  }

  struct Read {
    TokenId token;  // -1: bytes
    std::string bytes;
  };
  Matcher matcher_;
  std::shared_ptr<Grammar> fresh_;
  std::vector<std::uint32_t> mask_;
  std::vector<Read> read_;
};

/// Plays `calls` on the grammar that `build` adds to a machine. It has so little room that it is
/// dropped on the way; the one that it is held against has enough.
inline void play(const grammar::Grammar::Build& build, std::string_view calls) {
  const auto make = [&](std::size_t max_bytes) {
    return Grammar::make(
        build, small_index(),
        {.machine = {.max_cells = 50'000, .max_cells_per_state = 1000, .max_steps = 10'000},
         .max_bytes = max_bytes});
  };
  const auto grammar = make(100'000);
  if (!grammar) return promise(!grammar.error().message.empty(), "a refusal says why");
  Calls matcher(*grammar, *make(std::size_t{64} << 20U));
  calls = calls.substr(0, 120);
  for (std::size_t i = 0; i + 1 < calls.size(); i += 2) {
    if (!matcher.call(static_cast<std::uint8_t>(calls[i]),
                      static_cast<std::uint8_t>(calls[i + 1]))) {
      break;
    }
  }
}

/// A grammar in `syntax` and, after a NUL, calls of a matcher of it: an entry point of a fuzzer.
inline int play_source(grammar::Syntax syntax, const std::uint8_t* data, std::size_t size) {
  const std::string_view input = text_of(data, size);
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const auto rules = grammar::read_rules(input.substr(0, cut), syntax);
  if (!rules) {
    promise(!rules.error().message.empty(), "a refusal says why");
    return 0;
  }
  play(
      [&](grammar::Machine& machine) {
        return grammar::add_rules(machine, *rules, small_index()->vocab());
      },
      input.substr(std::min(cut + 1, input.size())));
  return 0;
}

}  // namespace tenon::fuzz
