#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/grammar/machine.h"
#include "tenon/grammar/token_set.h"
#include "tenon/regex/byte_set.h"
#include "tenon/vocab/vocab.h"

/// The frames of context-free grammars. Each is made once and referred to by number, so that rules
/// may contain themselves.
namespace tenon::grammar {

/// One byte of a set, which is not empty.
[[nodiscard]] std::unique_ptr<Frame> make_byte(const regex::ByteSet& bytes);
/// These bytes; nothing if there are none.
[[nodiscard]] std::unique_ptr<Frame> make_literal(std::string bytes);
/// One after the other.
[[nodiscard]] std::unique_ptr<Frame> make_sequence(std::vector<FrameId> items);
/// One of them; none: nothing can be read.
[[nodiscard]] std::unique_ptr<Frame> make_choice(std::vector<FrameId> items);

constexpr std::uint64_t kNoMaximum = ~std::uint64_t{0};
/// `item` from `min` to `max` times.
[[nodiscard]] std::unique_ptr<Frame> make_repeat(FrameId item, std::uint64_t min,
                                                 std::uint64_t max);
/// One token of the set, as a whole.
[[nodiscard]] std::unique_ptr<Frame> make_token(TokenSet tokens);
/// What the scanner accepts, of one token to `max`: node::Tokens. `vocab` outlives the frame.
[[nodiscard]] std::unique_ptr<Frame> make_tokens(std::shared_ptr<Scanner> scanner,
                                                 const vocab::Vocab& vocab, std::uint32_t max);
/// What the scanner accepts. It is shared by the frames of a machine that read the same lexeme.
[[nodiscard]] std::unique_ptr<Frame> make_lexeme(std::shared_ptr<Scanner> scanner);
/// The same from another state than its start, kDead if nothing is to be read. What the scanner
/// remembers is counted elsewhere. Frames may also wait at this one, with a state as local.
[[nodiscard]] std::unique_ptr<Frame> make_lexeme(std::shared_ptr<Scanner> scanner,
                                                 Scanner::State start);

}  // namespace tenon::grammar
