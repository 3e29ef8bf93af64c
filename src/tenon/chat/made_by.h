#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/chat/model_options.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"

namespace tenon::chat {

/// What makes a model's answers, for recordings: the member `made_by` of docs/recording.md. It is
/// made when it is first asked for. Thread-safe.
class MadeBy {
 public:
  /// Always with the same arguments. `chat_template` is "" and `format` null where the engine makes
  /// the prompt.
  [[nodiscard]] std::shared_ptr<const json::Object> of(const ModelOptions& options,
                                                       const engine::Engine& engine,
                                                       std::string_view chat_template,
                                                       const format::Format* format) const;

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const json::Object> made_;  // guarded by mutex_; null: not yet
};

/// What a recording says about a model, for making it again.
struct RecordedModel {
  ModelOptions options;  ///< Those that the prompt, the parser and the repair read.
  engine::Capabilities engine;
  std::vector<std::string> controls;  ///< Texts of the control tokens.
  std::string bos;
  std::string eos;
  std::vector<std::string> ends;  ///< Further control tokens that end an answer.
};
/// Fails with `invalid` if `made_by` is not what MadeBy::of() makes.
[[nodiscard]] Expected<RecordedModel> read_made_by(const json::Value& made_by);

}  // namespace tenon::chat
