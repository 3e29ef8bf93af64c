#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/chat/model.h"
#include "tenon/rlm/repl.h"
#include "tenon/rlm/run.h"

namespace tenon::rlm {

/// Answers the questions of one cell. Prompts go to models, or to children, which are runs of their
/// own on threads of their own; the run's gates limit how many are under way. It records the
/// answers, so that a cell can be run again without asking. Thread-safe.
class Questions : public SubCalls, public std::enable_shared_from_this<Questions> {
 public:
  /// `session` is read only for its names. end_cell() must be called before this object is
  /// destroyed.
  Questions(std::shared_ptr<Host> host, std::shared_ptr<Bounds> bounds, const CancelToken& halt,
            const Session& session, unsigned depth);

  void ask(SubCall call, Answer answer) override;
  /// Ends the cell: cancels the answers that are under way and waits for children. Returns the
  /// answers that the cell received; nullopt if they were too large to record.
  [[nodiscard]] std::optional<std::vector<AskedRecord>> end_cell();

 private:
  using Clock = std::chrono::steady_clock;
  struct Batch;
  /// One prompt of a batch, from its question to its answer.
  struct Item {
    std::shared_ptr<Batch> batch;
    std::size_t index = 0;
    std::string prompt;
    unsigned tries = 0;
    Clock::time_point begun;
    // Guarded by the mutex:
    bool is_over = false;
    std::shared_ptr<chat::Model> model;
    std::shared_ptr<chat::Answer> answer;
    std::shared_ptr<void> alarm;
  };
  using ItemPtr = std::shared_ptr<Item>;
  /// The answers of a batch, once all of them have arrived.
  struct Told {
    Answer answer;
    std::vector<std::string> texts;
  };
  struct Child {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> is_done;
    CancelToken halt;
  };
  class Sink;

  void pump();
  void woken(SubCall::Kind kind);
  void start(const ItemPtr& item);
  void start_child(const ItemPtr& item);
  void done(const ItemPtr& item, std::string text);
  [[nodiscard]] Told settle(Item& item, std::string text);
  void try_later(const ItemPtr& item);
  void note(const Batch& batch);
  void trace(const Batch& batch, std::string_view prompt, std::string_view text,
             Clock::time_point begun) const;
  [[nodiscard]] std::string model_of(const SubCall& call, std::string& error) const;
  [[nodiscard]] bool makes_children() const;
  [[nodiscard]] Gate& gate_of(SubCall::Kind kind) const;
  void sweep();

  const std::shared_ptr<Host> host_;
  const std::shared_ptr<Bounds> bounds_;
  const CancelToken halt_;
  const CancelToken over_;  // set when the cell is over, under the mutex
  const std::string session_;
  const std::string root_;
  const std::string sub_;
  const std::string owner_;
  const unsigned depth_;

  std::mutex mutex_;  // guards the members below; it is held while gates are called, but no other
                      // code
  std::deque<ItemPtr> waiting_[2];  // by kind of question
  bool is_queued_[2] = {};          // waits at the gate of that kind
  std::set<ItemPtr> running_;
  std::size_t open_bytes_ = 0;                   // of prompts that have no answer yet
  std::vector<std::shared_ptr<Batch>> batches_;  // of the cell, as long as they can be recorded
  std::size_t noted_bytes_ = 0;
  bool is_noted_ = true;
  std::size_t refusals_ = 0;
  std::vector<Item> gone_;  // items whose contents are still to be destroyed
  std::list<Child> children_;
};

/// Answers from the records only.
class NotedAnswers : public SubCalls {
 public:
  explicit NotedAnswers(const CellRecord& cell) : cell_(cell), used_(cell.asked.size()) {}
  void ask(SubCall call, Answer answer) override;

 private:
  const CellRecord& cell_;
  std::vector<bool> used_;
};

}  // namespace tenon::rlm
