#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "tenon/engine/engine.h"

/// An engine as `tenon bench model` asks it: timed, and constrained or not.
namespace tenon::app::bench {

/// How fast tokens were read and generated.
struct Speed {
  std::uint64_t prompt_tokens = 0;  ///< In answers whose prompt was mostly not in the cache.
  std::chrono::nanoseconds prompt_time{0};
  std::uint64_t generated_tokens = 0;  ///< After the first token of each answer.
  std::chrono::nanoseconds generated_time{0};

  Speed& operator+=(const Speed& other);
};

/// Passes everything on to `inner`. Without `holds`, no answer is constrained to a grammar of its
/// tools. Thread-safe, as engines are.
class WatchedEngine final : public engine::Engine {
 public:
  WatchedEngine(std::shared_ptr<engine::Engine> inner, bool holds);

  const engine::Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return inner_->tokenizer(); }
  std::string_view chat_template() const override { return inner_->chat_template(); }
  engine::EngineStats stats() const override { return inner_->stats(); }
  Status check() const override { return inner_->check(); }
  Expected<std::unique_ptr<engine::Run>> start(engine::GenerateRequest request,
                                               std::shared_ptr<engine::EventSink> sink) override;

  [[nodiscard]] const engine::Engine& inner() const { return *inner_; }
  /// For the answers that have ended by themselves.
  [[nodiscard]] Speed speed() const;

 private:
  struct Watch {
    std::mutex mutex;
    Speed speed;  // guarded by mutex
  };
  class Sink;

  const std::shared_ptr<engine::Engine> inner_;
  const bool holds_;
  const engine::Capabilities capabilities_;
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
};

}  // namespace tenon::app::bench
