#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/record/reader.h"

/// Inside the layer: recorded runs as an engine gives them.
namespace tenon::record {

/// Gives one recorded token or piece.
void play(const Step& step, engine::EventSink& sink);
/// Gives a whole run as it was recorded, or as much of it as comes before `is_cancelled`.
void play_steps(const Run& run, const std::atomic<bool>& is_cancelled, engine::EventSink& sink);
/// Gives what today's engine reads in the bytes that the run's upstream sent (Run::upstream) when
/// the model made by `made_by` (a line of a recording) sent it `request`.
void play_upstream(const Run& run, const json::Value& made_by, engine::GenerateRequest request,
                   const std::atomic<bool>& is_cancelled, std::shared_ptr<engine::EventSink> sink);

/// Plays runs, each from a thread of its own, which the destructor waits for. Thread-safe.
class Player {
 public:
  /// `on_cancel` is called when a run was cancelled, by the thread that cancels.
  explicit Player(std::function<void()> on_cancel = [] {}) : on_cancel_(std::move(on_cancel)) {}
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  using Play = std::function<void(const std::atomic<bool>& is_cancelled)>;
  /// What `play` uses must outlive this.
  [[nodiscard]] std::unique_ptr<engine::Run> start(Play play);

 private:
  const std::function<void()> on_cancel_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;  // guarded by mutex_
};

}  // namespace tenon::record
