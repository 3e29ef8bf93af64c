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
#include "tenon/chat/responder.h"
#include "tenon/rlm/repl.h"
#include "tenon/rlm/run.h"

namespace tenon::rlm {

/// Answers what one cell asks: prompts go to models, and to children, which are runs of their own
/// on threads of their own; how many at a time, the run's gates say. Notes down what was answered,
/// so that a cell can be run again without asking. Thread-safe.
class Questions : public SubCalls, public std::enable_shared_from_this<Questions> {
 public:
  /// `session` is read for its names alone. end_cell() must be called before the end of this.
  Questions(std::shared_ptr<Host> host, std::shared_ptr<Bounds> bounds, const CancelToken& halt,
            const Session& session, unsigned depth);

  void ask(SubCall call, Answer answer) override;
  /// The cell is over: what is still under way is cancelled, and children are waited for. What the
  /// cell was told; nullopt: it was too much to be noted.
  [[nodiscard]] std::optional<std::vector<AskedRecord>> end_cell();

 private:
  using Clock = std::chrono::steady_clock;
  struct Batch;
  /// A prompt of a batch, from its question to its answer.
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
  /// What a batch is told once all of it is there.
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
  const CancelToken over_;  // the cell is; set under the mutex
  const std::string session_;
  const std::string root_;
  const std::string sub_;
  const std::string owner_;
  const unsigned depth_;

  std::mutex mutex_;  // guards what follows; not held while anything but a gate is called
  std::deque<ItemPtr> waiting_[2];  // by kind
  bool is_queued_[2] = {};          // at the gate of that kind
  std::set<ItemPtr> running_;
  std::size_t open_bytes_ = 0;                   // of prompts without an answer
  std::vector<std::shared_ptr<Batch>> batches_;  // of the cell, while they can be noted
  std::size_t noted_bytes_ = 0;
  bool is_noted_ = true;
  std::size_t refusals_ = 0;
  std::vector<Item> gone_;  // what they held is to be let go of
  std::list<Child> children_;
};

/// Answers from the notes alone.
class NotedAnswers : public SubCalls {
 public:
  explicit NotedAnswers(const CellRecord& cell) : cell_(cell), used_(cell.asked.size()) {}
  void ask(SubCall call, Answer answer) override;

 private:
  const CellRecord& cell_;
  std::vector<bool> used_;
};

}  // namespace tenon::rlm
