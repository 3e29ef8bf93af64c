#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/grammar/machine/vocab_index.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// The languages of the front ends; EBNF is read as GBNF.
enum class Dialect : std::uint8_t { gbnf, ebnf, lark, structural_tag };

/// For tests and fuzzers: choices made from the bytes of an input. Once the bytes are used up, each
/// choice is the first one, so every input ends.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  /// A number in [0, count), for counts up to 65,536.
  std::size_t pick(std::size_t count);
  bool one_in(std::size_t count) { return pick(count) == count - 1; }
  [[nodiscard]] bool is_used_up() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

/// A schema with a preference for counts, alternatives, looks ahead and behind, and several
/// conditions on one string.
[[nodiscard]] json::Value chosen_schema(Choices& choices);

/// Sums over the calls of play_mask_walk().
struct MaskWalkCounts {
  std::uint64_t inputs = 0;
  std::uint64_t refused = 0;  ///< Sources for which there was no grammar, with an error that says
                              ///< why.
  std::uint64_t limited = 0;  ///< Walks that ended at a limit.
  std::uint64_t masks = 0;
  std::uint64_t trials = 0;  ///< Tokens that were compared with a mask.
  double most_us = 0;        ///< The longest call of a matcher, in CPU time.
};

/// Makes a schema from the first bytes of `input`, and from the others a walk of a matcher: allowed
/// and refused tokens, rollbacks, forks, drafts, forced bytes, ends. Each mask is compared with a
/// matcher of another grammar that tries a sample of the tokens one by one, and each finished text
/// with the validator. Returns the promise that was broken, in words, or nothing.
[[nodiscard]] std::optional<std::string> play_mask_walk(std::string_view input,
                                                        const std::shared_ptr<VocabIndex>& index,
                                                        MaskWalkCounts& counts);

/// The same for a grammar in one of the languages of the front ends (chosen_grammar.h). What is
/// accepted as a whole is not checked.
[[nodiscard]] std::optional<std::string> play_grammar_walk(std::string_view input, Dialect dialect,
                                                           const std::shared_ptr<VocabIndex>& index,
                                                           MaskWalkCounts& counts);

/// The vocabulary of the bundled model; `root` is the root of the source tree.
[[nodiscard]] std::shared_ptr<VocabIndex> bundled_index(const std::string& root);
/// The first `most` tokens of a file of tokens ("TKB1", u32 count, u32 end token; per token u8
/// kind, where 1 is control, u16 length, bytes) and its end token. Null if there is no such file.
[[nodiscard]] std::shared_ptr<VocabIndex> index_of_tokens(const std::string& path,
                                                          std::size_t most);

}  // namespace tenon::grammar
