#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/engine/engine.h"
#include "tenon/record/reader.h"

/// Inside the layer: the order in which the choices of a recorded answer are given again.
namespace tenon::record {

/// Whose turn it is among the choices of a recording. They are played at once, each on a thread of
/// its own, but what they give comes in the order of the recording's lines: a stream has its
/// choices in that order, and a choice that fails ends the others where it did then. Thread-safe.
class Turns {
 public:
  explicit Turns(const Read& read);

  /// Waits until each other choice has given what stands before `line`, or has ended.
  /// `is_cancelled` ends the wait once wake() was called.
  void wait(unsigned choice, std::size_t line, const std::atomic<bool>& is_cancelled);
  /// The present run of the choice has ended; the next one begins with its first line.
  void end_run(unsigned choice);
  /// Nothing more comes of the choice, even if the recording has more of it.
  void end_choice(unsigned choice);
  void wake();

 private:
  struct Choice {
    std::vector<std::size_t> runs;  // the first line of each
    std::size_t present = 0;        // in `runs`
    std::size_t line = kNoLine;     // where what comes next stands
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<unsigned, Choice> choices_;  // guarded by mutex_
};

/// The sink of one recorded run, which gives each part to `sink` when its turn has come.
[[nodiscard]] std::shared_ptr<engine::EventSink> in_turn(std::shared_ptr<Turns> turns,
                                                         const Run& run,
                                                         const std::atomic<bool>& is_cancelled,
                                                         std::shared_ptr<engine::EventSink> sink);

}  // namespace tenon::record
