#include "tenon/capi/matcher.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenon/capi/handle.h"

namespace tenon::capi {
namespace {

constexpr std::size_t kMostForced = std::size_t{64} << 10;

// What the matcher says of its last call becomes what the handle says of it.
void note_error(tenon_matcher& matcher) {
  const std::optional<Error>& error = matcher.matcher.error();
  matcher.error = error ? error->message : std::string();
}

void note_caught(tenon_matcher& matcher) noexcept {
  tenon_error* const error = caught();
  try {
    matcher.error = error->message;
  } catch (...) {
    matcher.error = "out of memory";  // fits into the string itself
  }
  tenon_error_free(error);
}

// Calls that change the matcher, or may: `otherwise` is what they give where nothing can be told.
template <class Result, class Call>
Result asked(tenon_matcher* matcher, Result otherwise, Call call) noexcept {
  if (matcher == nullptr) return otherwise;
  if (!matcher->error.empty()) matcher->error.clear();
  try {
    const Result result = call(*matcher);
    if (matcher->matcher.error()) [[unlikely]] {
      note_error(*matcher);
    }
    return result;
  } catch (...) {
    note_caught(*matcher);
    return otherwise;
  }
}

constexpr int kCannotTell = -1;

int verdict(const tenon_matcher& matcher, bool accepted) {
  if (accepted) return 1;
  return matcher.matcher.error() ? kCannotTell : 0;
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
using tenon::Errc;
using tenon::Error;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_matcher_new(const tenon_grammar* grammar, tenon_matcher** matcher) {
  capi::clear(matcher);
  return capi::guarded({{grammar, "grammar"}, {matcher, "matcher"}}, [&]() -> Status {
    *matcher = new tenon_matcher(grammar->grammar, grammar->vocabulary);
    return {};
  });
}

tenon_error* tenon_matcher_copy(const tenon_matcher* matcher, tenon_matcher** copy) {
  capi::clear(copy);
  return capi::guarded({{matcher, "matcher"}, {copy, "copy"}}, [&]() -> Status {
    *copy = new tenon_matcher(*matcher);
    return {};
  });
}

void tenon_matcher_free(tenon_matcher* matcher) {
  delete matcher;
}

tenon_error* tenon_matcher_fill_mask(tenon_matcher* matcher, uint32_t* mask, size_t words) {
  return capi::guarded({{matcher, "matcher"}, {mask, "mask"}}, [&]() -> Status {
    const std::size_t needed = tenon_mask_words(matcher->vocab_size);
    if (words < needed) {
      return Unexpected(Error{Errc::invalid, "mask: has " + std::to_string(words) +
                                                 " words, and the vocabulary needs " +
                                                 std::to_string(needed)});
    }
    const std::span<std::uint32_t> all(mask, words);
    std::ranges::fill(all.subspan(needed), 0U);
    return matcher->matcher.fill_mask(all.first(needed));
  });
}

int tenon_matcher_accept(tenon_matcher* matcher, int32_t token) {
  return capi::asked(matcher, capi::kCannotTell, [token](tenon_matcher& of) {
    // These the matcher answers without a look at its grammar, and leaves its error as it is.
    const bool is_token = token >= 0 && static_cast<std::size_t>(token) < of.vocab_size;
    if (!is_token || of.matcher.is_finished()) return 0;
    return capi::verdict(of, of.matcher.accept(token));
  });
}

int tenon_matcher_accept_bytes(tenon_matcher* matcher, tenon_text bytes) {
  return capi::asked(matcher, capi::kCannotTell, [bytes](tenon_matcher& of) {
    if (of.matcher.is_finished()) return 0;
    return capi::verdict(of, of.matcher.accept_bytes(capi::view(bytes)));
  });
}

tenon_text tenon_matcher_error(const tenon_matcher* matcher) {
  return capi::text_of(matcher == nullptr ? "matcher is NULL" : std::string_view(matcher->error));
}

size_t tenon_matcher_validate_draft(tenon_matcher* matcher, const int32_t* tokens, size_t count) {
  if (tokens == nullptr) return 0;
  return capi::asked(matcher, std::size_t{0}, [&](tenon_matcher& of) {
    return of.matcher.validate_draft(std::span(tokens, count));
  });
}

tenon_error* tenon_matcher_rollback(tenon_matcher* matcher, size_t count) {
  return capi::guarded({{matcher, "matcher"}}, [&]() -> Status {
    const std::size_t accepted = matcher->matcher.accepted_count();
    if (count > accepted) {
      return Unexpected(Error{Errc::invalid, "count: is " + std::to_string(count) + ", and only " +
                                                 std::to_string(accepted) + " were accepted"});
    }
    matcher->matcher.rollback(count);
    return {};
  });
}

size_t tenon_matcher_accepted_count(const tenon_matcher* matcher) {
  return matcher == nullptr ? 0 : matcher->matcher.accepted_count();
}

void tenon_matcher_reset(tenon_matcher* matcher) {
  if (matcher == nullptr) return;
  matcher->matcher.rollback(matcher->matcher.accepted_count());
  matcher->error.clear();
}

int tenon_matcher_is_accepting(tenon_matcher* matcher) {
  return capi::asked(matcher, 0,
                     [](tenon_matcher& of) { return of.matcher.is_accepting() ? 1 : 0; });
}

int tenon_matcher_is_complete(tenon_matcher* matcher) {
  return capi::asked(matcher, 0,
                     [](tenon_matcher& of) { return of.matcher.is_complete() ? 1 : 0; });
}

int tenon_matcher_is_finished(const tenon_matcher* matcher) {
  return matcher != nullptr && matcher->matcher.is_finished() ? 1 : 0;
}

tenon_text tenon_matcher_forced_bytes(tenon_matcher* matcher, size_t max_bytes) {
  const std::size_t most = max_bytes == 0 ? capi::kMostForced : max_bytes;
  return capi::asked(matcher, capi::text_of({}), [most](tenon_matcher& of) {
    of.forced = of.matcher.forced_bytes(most);
    return capi::text_of(of.forced);
  });
}

tenon_error* tenon_matcher_forced_tokens(tenon_matcher* matcher, int32_t* ids, size_t capacity,
                                         size_t* count) {
  capi::clear(count);
  return capi::guarded({{matcher, "matcher"}, {ids, "ids"}, {count, "count"}}, [&]() -> Status {
    auto forced = matcher->matcher.forced_tokens(*matcher->tokenizer, capi::kMostForced);
    if (!forced) return Unexpected(forced.error());
    forced->resize(std::min(forced->size(), capacity));
    return capi::write_ids(*forced, ids, capacity, count);
  });
}

tenon_error* tenon_matcher_tokens_to_end(tenon_matcher* matcher, int32_t* ids, size_t capacity,
                                         size_t* count) {
  capi::clear(count);
  return capi::guarded({{matcher, "matcher"}, {count, "count"}}, [&]() -> Status {
    const auto found = matcher->matcher.tokens_to_end(capacity);
    if (!found) return Unexpected(found.error());
    return capi::write_ids(*found, ids, capacity, count);
  });
}
