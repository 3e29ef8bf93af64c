#include "tenon/capi/matcher.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/capi/handle.h"

// Functions of tenon.h that are called for each token return a number, not a tenon_error: 1 yes, 0
// no, -1 it cannot be told, with the reason in the handle (tenon_matcher_error). asked() is the
// frame of all of them. It allocates nothing where there is no error, and lets no exception out, as
// the caller is C. A matcher serves one thread at a time; only a mask pool has a lock.

namespace tenon::capi {
namespace {

// In bytes, and in tokens. tenon.h promises these bounds, so that a caller can size its array.
constexpr std::size_t kMostForced = std::size_t{64} << 10;
constexpr std::size_t kMostTokens = kMostForced;
constexpr std::size_t kMostPoolThreads = 1'024;

// Sets the handle's error to that of the matcher's last call.
void note_error(tenon_matcher& matcher) {
  const std::optional<Error>& error = matcher.matcher.error();
  matcher.error = error ? error->message : std::string();
}

void note_caught(tenon_matcher& matcher) noexcept {
  tenon_error* const error = caught();
  try {
    matcher.error = error->message;
  } catch (...) {
    matcher.error = "out of memory";  // needs no allocation: it fits into the string object
  }
  tenon_error_free(error);
}

// Asks a question that the matcher answers by its grammar, and sets the handle's error to that of
// the question. Returns `ended` if the text has ended, since nothing can follow, and `unknown` if
// the matcher cannot tell.
template <class Result, class Question>
Result asked(tenon_matcher* matcher, Result ended, Result unknown, Question question) noexcept {
  if (matcher == nullptr) return unknown;
  if (!matcher->error.empty()) matcher->error.clear();
  // Nothing can follow an end token, so the matcher is not asked.
  if (matcher->matcher.is_finished()) return ended;
  try {
    const Result result = question(matcher->matcher);
    if (matcher->matcher.error()) [[unlikely]] {
      note_error(*matcher);
    }
    return result;
  } catch (...) {
    note_caught(*matcher);
    return unknown;
  }
}

constexpr int kCannotTell = -1;

int verdict(const grammar::Matcher& matcher, bool accepted) {
  if (accepted) return 1;
  return matcher.error() ? kCannotTell : 0;
}

Error too_few_words(std::size_t words, std::size_t needed) {
  return Error::at(Errc::invalid, "mask",
                   "has " + std::to_string(words) + " words, and the vocabulary needs " +
                       std::to_string(needed));
}

Error of_matcher(std::size_t at, std::string_view what) {
  return Error::at(Errc::invalid, "matchers[" + std::to_string(at) + "]", what);
}

Error at_matcher(std::size_t at, const Error& error) {
  return Error::at(error.code, "matchers[" + std::to_string(at) + "]", error.message);
}

// An id that does not exist is answered without the grammar.
bool is_token(const tenon_matcher& matcher, std::int32_t id) {
  return id >= 0 && static_cast<std::size_t>(id) < matcher.vocab_size;
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace grammar = tenon::grammar;
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
    if (words < needed) return Unexpected(capi::too_few_words(words, needed));
    const std::span<std::uint32_t> all(mask, words);
    // An engine may pad the rows of its masks; bits behind the vocabulary must not allow anything.
    std::ranges::fill(all.subspan(needed), 0U);
    return matcher->matcher.fill_mask(all.first(needed));
  });
}

tenon_error* tenon_matcher_fill_draft_masks(tenon_matcher* matcher, const int32_t* tokens,
                                            const int32_t* parents, size_t count, uint32_t* masks,
                                            size_t words, size_t* reached) {
  capi::clear(reached);
  return capi::guarded(
      {{matcher, "matcher"}, {tokens, "tokens"}, {parents, "parents"}, {masks, "masks"}},
      [&]() -> Status {
        const std::size_t needed = tenon_mask_words(matcher->vocab_size);
        if (words < needed) return Unexpected(capi::too_few_words(words, needed));
        const auto can_come = matcher->matcher.fill_draft_masks(
            {.tokens = {tokens, count}, .parents = {parents, count}}, {masks, count * words},
            words);
        if (!can_come) return Unexpected(can_come.error());
        if (reached != nullptr) *reached = *can_come;
        return {};
      });
}

int tenon_matcher_accept(tenon_matcher* matcher, int32_t token) {
  if (matcher != nullptr && !capi::is_token(*matcher, token)) {
    matcher->error.clear();
    return 0;
  }
  return capi::asked(matcher, 0, capi::kCannotTell,
                     [token](grammar::Matcher& of) { return capi::verdict(of, of.accept(token)); });
}

int tenon_matcher_accept_bytes(tenon_matcher* matcher, tenon_text bytes) {
  return capi::asked(matcher, 0, capi::kCannotTell, [bytes](grammar::Matcher& of) {
    return capi::verdict(of, of.accept_bytes(capi::view(bytes)));
  });
}

tenon_text tenon_matcher_error(const tenon_matcher* matcher) {
  return capi::text_of(matcher == nullptr ? "matcher is NULL" : std::string_view(matcher->error));
}

size_t tenon_matcher_validate_draft(tenon_matcher* matcher, const int32_t* tokens, size_t count) {
  if (tokens == nullptr || matcher == nullptr) return 0;
  const std::span draft(tokens, count);
  const auto none = std::ranges::find_if_not(
      draft, [matcher](std::int32_t id) { return capi::is_token(*matcher, id); });
  // The draft ends before the first id that does not exist.
  const std::span some = draft.first(static_cast<std::size_t>(none - draft.begin()));
  if (some.empty()) return 0;
  return capi::asked(matcher, std::size_t{0}, std::size_t{0},
                     [some](grammar::Matcher& of) { return of.validate_draft(some); });
}

tenon_error* tenon_matcher_rollback(tenon_matcher* matcher, size_t count) {
  return capi::guarded({{matcher, "matcher"}}, [&]() -> Status {
    const std::size_t accepted = matcher->matcher.accepted_count();
    if (count > accepted) {
      return Unexpected(Error::at(Errc::invalid, "count",
                                  "is " + std::to_string(count) + ", and only " +
                                      std::to_string(accepted) + " were accepted"));
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
  return capi::asked(matcher, 0, 0, [](grammar::Matcher& of) { return of.is_accepting() ? 1 : 0; });
}

int tenon_matcher_is_complete(tenon_matcher* matcher) {
  return capi::asked(matcher, 0, 0, [](grammar::Matcher& of) { return of.is_complete() ? 1 : 0; });
}

int tenon_matcher_is_finished(const tenon_matcher* matcher) {
  return matcher != nullptr && matcher->matcher.is_finished() ? 1 : 0;
}

// The bytes live in the handle until the next call.
tenon_text tenon_matcher_forced_bytes(tenon_matcher* matcher, size_t max_bytes) {
  const std::size_t most = max_bytes == 0 ? capi::kMostForced : max_bytes;
  return capi::asked(matcher, capi::text_of({}), capi::text_of({}),
                     [most, matcher](grammar::Matcher& of) {
                       matcher->forced = of.forced_bytes(most);
                       return capi::text_of(matcher->forced);
                     });
}

tenon_error* tenon_matcher_forced_tokens(tenon_matcher* matcher, int32_t* ids, size_t capacity,
                                         size_t* count) {
  capi::clear(count);
  return capi::guarded({{matcher, "matcher"}, {ids, "ids"}, {count, "count"}}, [&]() -> Status {
    auto forced = matcher->matcher.forced_tokens(*matcher->tokenizer, capi::kMostForced);
    if (!forced) return Unexpected(forced.error());
    // Both bounds: what the caller has room for, and what tenon.h promises.
    forced->resize(std::min({forced->size(), capacity, capi::kMostTokens}));
    return capi::write_ids(*forced, ids, capacity, count);
  });
}

tenon_error* tenon_matcher_tokens_to_end(tenon_matcher* matcher, int32_t* ids, size_t capacity,
                                         size_t* count) {
  capi::clear(count);
  return capi::guarded({{matcher, "matcher"}, {count, "count"}}, [&]() -> Status {
    if (ids == nullptr && capacity > 0) return Unexpected(capi::null_array("ids"));
    const std::size_t most = std::min(capacity, capi::kMostTokens);
    auto found = matcher->matcher.tokens_to_end(most);
    if (!found && found.error().code == Errc::limit_exceeded) {
      // If there is a longer end, the message tells its length.
      if (const auto any = matcher->matcher.tokens_to_end(); any && any->size() > most) {
        found.error().message = "the end takes " + std::to_string(any->size()) +
                                " tokens, and there is room for " + std::to_string(most);
      }
    }
    if (!found) return Unexpected(found.error());
    return capi::write_ids(*found, ids, capacity, count);
  });
}

tenon_error* tenon_mask_pool_new(size_t threads, tenon_mask_pool** pool) {
  capi::clear(pool);
  return capi::guarded({{pool, "pool"}}, [&]() -> Status {
    if (threads > capi::kMostPoolThreads) {
      return Unexpected(Error::at(Errc::invalid, "threads",
                                  "is " + std::to_string(threads) + ", and may be at most " +
                                      std::to_string(capi::kMostPoolThreads)));
    }
    *pool = new tenon_mask_pool(threads);
    return {};
  });
}

void tenon_mask_pool_free(tenon_mask_pool* pool) {
  delete pool;
}

// Errors go to `errors`, one for each matcher, if the caller gives it; otherwise the first one is
// returned. Either way all other masks are filled.
tenon_error* tenon_mask_pool_fill_masks(tenon_mask_pool* pool, tenon_matcher* const* matchers,
                                        size_t count, uint32_t* masks, size_t mask_rows,
                                        size_t words, const size_t* rows, tenon_error** errors) {
  if (errors != nullptr) std::fill_n(errors, count, nullptr);
  return capi::guarded({{pool, "pool"}}, [&]() -> Status {
    if (count == 0) return {};
    if (matchers == nullptr) return Unexpected(capi::null_array("matchers"));
    if (masks == nullptr) return Unexpected(capi::null_array("masks"));
    // Batches of several threads take turns; each uses all threads of the pool.
    const std::lock_guard lock(pool->mutex);
    const Status taken = pool->take({matchers, count}, {masks, mask_rows * words}, mask_rows, rows);
    if (!taken) return taken;
    // Several threads of the pool and this one; no two of them use the same matcher.
    pool->pool.fill_masks(pool->rows);
    Status first;
    for (std::size_t i = 0; i < count; ++i) {
      Status& status = pool->rows[i].status;
      if (status) continue;
      Error& error = status.error();
      error = capi::at_matcher(i, error);
      if (errors != nullptr) {
        errors[i] = capi::error_of(error);
      } else if (first) {
        first = Unexpected(std::move(error));
      }
    }
    return first;
  });
}

tenon_mask_pool::tenon_mask_pool(std::size_t threads) : pool(threads) {}

// Checks the whole batch before any mask is touched. The vectors keep their memory from one batch
// to the next, so a batch of the usual size allocates nothing. A matcher must not occur twice, as
// two threads would use it at the same time; the sorted copy finds that in n log n.
Status tenon_mask_pool::take(std::span<tenon_matcher* const> matchers,
                             std::span<std::uint32_t> masks, std::size_t mask_rows,
                             const std::size_t* row_of) {
  const std::size_t words = mask_rows == 0 ? 0 : masks.size() / mask_rows;
  rows.clear();
  is_taken.assign(mask_rows, false);
  seen.assign(matchers.begin(), matchers.end());
  std::ranges::sort(seen);
  for (std::size_t i = 0; i < matchers.size(); ++i) {
    tenon_matcher* const matcher = matchers[i];
    if (matcher == nullptr) return Unexpected(capi::of_matcher(i, "is NULL"));
    if (std::ranges::equal_range(seen, matcher).size() != 1) {
      return Unexpected(capi::of_matcher(i, "occurs twice, and a text has one row"));
    }
    const std::size_t row = row_of == nullptr ? i : row_of[i];
    if (row >= mask_rows) {
      return Unexpected(Error::at(
          Errc::invalid, "rows",
          "there is no row " + std::to_string(row) + " among " + std::to_string(mask_rows)));
    }
    if (is_taken[row]) {
      return Unexpected(
          Error::at(Errc::invalid, "rows", "row " + std::to_string(row) + " has two matchers"));
    }
    is_taken[row] = true;
    const std::size_t needed = tenon_mask_words(matcher->vocab_size);
    if (words < needed) return Unexpected(capi::too_few_words(words, needed));
    rows.push_back({&matcher->matcher, masks.subspan(row * words, needed), {}});
  }
  // Words behind those of a vocabulary are an engine's padding.
  for (const grammar::MaskRow& row : rows) {
    const std::size_t begin = static_cast<std::size_t>(row.mask.data() - masks.data());
    std::ranges::fill(masks.subspan(begin + row.mask.size(), words - row.mask.size()), 0U);
  }
  return {};
}
