#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/matcher.h"

namespace tenon::grammar {

/// One row of a batch: a matcher, and the mask that is filled for it.
struct MaskRow {
  Matcher* matcher = nullptr;
  std::span<std::uint32_t> mask;
  Status status;  ///< what Matcher::fill_mask returned; after a failure the mask is empty
};

/// Threads that fill the masks of a batch of texts. Thread-safe: batches take turns.
///
///     MaskPool pool(4);
///     std::vector<MaskRow> rows;  // kept by the engine from token to token
///     for (Request& request : running) rows.push_back({&request.matcher, request.mask});
///     pool.fill_masks(rows);      // then look at each status
///
/// Matchers of one grammar take turns anyway, so one thread fills all rows of a grammar; threads
/// help where a batch has several grammars. The caller's thread works too, and is not kept waiting
/// for threads that have not begun.
class MaskPool {
 public:
  /// Starts `threads` threads, which work beside the caller's; fewer if the system gives no more.
  explicit MaskPool(std::size_t threads);
  ~MaskPool();
  MaskPool(const MaskPool&) = delete;
  MaskPool& operator=(const MaskPool&) = delete;

  /// Fills the mask of each row, as Matcher::fill_mask does. No matcher may occur twice, and no two
  /// masks may overlap.
  void fill_masks(std::span<MaskRow> rows);

  [[nodiscard]] std::size_t thread_count() const { return threads_.size(); }

 private:
  void run();
  void work(std::unique_lock<std::mutex>& lock);

  std::mutex batch_;  // one batch at a time
  std::mutex mutex_;  // guards the members below, but for the rows of a share that was taken
  std::condition_variable has_work_;
  std::condition_variable is_done_;
  std::vector<MaskRow*> rows_;       // those of one grammar side by side
  std::vector<std::size_t> shares_;  // where each grammar's rows begin in rows_, and the end
  std::size_t next_ = 0;             // the share to be taken next
  std::size_t unfinished_ = 0;       // shares that are not filled yet
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tenon::grammar
