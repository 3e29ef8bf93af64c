#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/regex/byte_set.h"
#include "tenon/vocab/vocab.h"

/// The frames of context-free grammars. Each is made once and referred to by number, so rules may
/// contain themselves.
namespace tenon::grammar {

/// Reads one byte of a set, which must not be empty.
[[nodiscard]] std::unique_ptr<Frame> make_byte(const regex::ByteSet& bytes);
/// Reads these bytes, which may be empty.
[[nodiscard]] std::unique_ptr<Frame> make_literal(std::string bytes);
/// Reads the items one after the other.
[[nodiscard]] std::unique_ptr<Frame> make_sequence(std::vector<FrameId> items);
/// Reads one of the items. Without items nothing can be read.
[[nodiscard]] std::unique_ptr<Frame> make_choice(std::vector<FrameId> items);

constexpr std::uint64_t kNoMaximum = ~std::uint64_t{0};
/// Reads `item` from `min` to `max` times.
[[nodiscard]] std::unique_ptr<Frame> make_repeat(FrameId item, std::uint64_t min,
                                                 std::uint64_t max);
/// Reads one whole token of the set.
[[nodiscard]] std::unique_ptr<Frame> make_token(TokenSet tokens);
constexpr std::uint32_t kAnyTokens = ~std::uint32_t{0};
/// Reads a text of the scanner with one to `max` tokens, or with kAnyTokens any number.
/// `vocab` must outlive the frame.
[[nodiscard]] std::unique_ptr<Frame> make_tokens(std::shared_ptr<Scanner> scanner,
                                                 const vocab::Vocab& vocab, std::uint32_t max);
/// Reads a text of the scanner. Frames of a machine that read the same lexeme share the scanner.
[[nodiscard]] std::unique_ptr<Frame> make_lexeme(std::shared_ptr<Scanner> scanner);
/// The same from another state than the scanner's start; kDead if nothing is to be read. The memory
/// of the scanner is counted by another frame. Frames may also wait in this one, with a state as
/// local.
[[nodiscard]] std::unique_ptr<Frame> make_lexeme(std::shared_ptr<Scanner> scanner,
                                                 Scanner::State start);

}  // namespace tenon::grammar
