#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/record/reader.h"

/// Inside the layer: recorded runs as an engine gives them.
namespace tenon::record {

/// Gives one recorded token or piece.
void play(const Step& step, engine::EventSink& sink);

/// Gives whole recorded runs, each from a thread of its own, which the destructor waits for.
/// Thread-safe.
class Player {
 public:
  Player() = default;
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  /// `run` must outlive this.
  [[nodiscard]] std::unique_ptr<engine::Run> start(const Run& run,
                                                   std::shared_ptr<engine::EventSink> sink);

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;  // guarded by mutex_
};

}  // namespace tenon::record
