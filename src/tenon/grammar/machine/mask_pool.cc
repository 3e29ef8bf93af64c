#include "tenon/grammar/machine/mask_pool.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "tenon/base/crash.h"

namespace tenon::grammar {
namespace {

// A thread has no caller that could catch what is thrown.
void fill(MaskRow& row) noexcept {
  try {
    row.status = row.matcher->fill_mask(row.mask);
  } catch (const std::bad_alloc&) {
    // A short text, which is stored without an allocation.
    row.status = Unexpected(Error{Errc::unavailable, "out of memory"});
  }
  if (!row.status) std::ranges::fill(row.mask, 0U);
}

}  // namespace

MaskPool::MaskPool(std::size_t threads) {
  threads_.reserve(threads);
  try {
    while (threads_.size() < threads) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    // The system gives no more of them: those that there are do the work.
  }
}

MaskPool::~MaskPool() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void MaskPool::fill_masks(std::span<MaskRow> rows) {
  const std::lock_guard batch(batch_);
  std::unique_lock lock(mutex_);
  rows_.clear();
  for (MaskRow& row : rows) rows_.push_back(&row);
  // By the addresses of grammar and matcher: rows of one grammar side by side, which make one
  // share.
  const auto key = [](const MaskRow* row) {
    return std::pair(&row->matcher->grammar(), row->matcher);
  };
  std::ranges::sort(rows_, {}, key);
  shares_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i == 0 || key(rows_[i]).first != key(rows_[i - 1]).first) shares_.push_back(i);
  }
  next_ = 0;
  unfinished_ = shares_.size();
  shares_.push_back(rows_.size());
  // The caller fills the first share itself, and a thread is woken for each of the others.
  const std::size_t helpers = std::min(unfinished_, threads_.size() + 1);
  for (std::size_t i = 1; i < helpers; ++i) has_work_.notify_one();
  work(lock);
  is_done_.wait(lock, [this] { return unfinished_ == 0; });
}

// A thread that wakes late finds no share left and waits again; so does one for which the caller
// was faster.
void MaskPool::run() {
  const crash::ThreadStack stack;
  std::unique_lock lock(mutex_);
  for (;;) {
    has_work_.wait(lock, [this] { return is_ending_ || next_ + 1 < shares_.size(); });
    if (is_ending_) return;
    work(lock);
  }
}

// Takes shares until none is left.
void MaskPool::work(std::unique_lock<std::mutex>& lock) {
  while (next_ + 1 < shares_.size()) {
    const std::size_t begin = shares_[next_];
    const std::size_t end = shares_[next_ + 1];
    ++next_;
    const std::span share = std::span(rows_).subspan(begin, end - begin);
    // rows_ and shares_ stay as they are until unfinished_ is 0, so the share needs no lock.
    lock.unlock();
    for (MaskRow* const row : share) fill(*row);
    lock.lock();
    if (--unfinished_ == 0) is_done_.notify_one();
  }
}

}  // namespace tenon::grammar
