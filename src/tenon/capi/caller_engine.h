#pragma once

#include <memory>
#include <string_view>

#include <tenon.h>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::capi {

/// An engine whose tokens the caller makes, by the functions of a tenon_engine.
///
/// A thread of its own begins the answers, as many at a time as the caller accepts, and tells the
/// caller about those that are not wanted any more. The caller passes tokens on threads of its own.
/// The reader of an answer gets its end at once, even if the caller has not noticed it: later
/// tokens are dropped. Its runs do not pause.
class CallerEngine final : public engine::Engine {
 public:
  /// `functions.user` must outlive this.
  CallerEngine(const tenon_engine& functions, std::shared_ptr<const vocab::Tokenizer> tokenizer);
  /// Ends all answers for their readers; generations that the caller has stay valid until the
  /// caller ends them. Not from within a sink.
  ~CallerEngine() override;
  CallerEngine(const CallerEngine&) = delete;
  CallerEngine& operator=(const CallerEngine&) = delete;

  [[nodiscard]] const engine::Capabilities& capabilities() const override;
  [[nodiscard]] const vocab::Tokenizer& tokenizer() const override;
  [[nodiscard]] std::string_view chat_template() const override { return {}; }
  [[nodiscard]] engine::EngineStats stats() const override;
  [[nodiscard]] Expected<std::unique_ptr<engine::Run>> start(
      engine::GenerateRequest request, std::shared_ptr<engine::EventSink> sink) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::capi
