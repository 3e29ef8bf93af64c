#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/model.h"

namespace tenon::chat {

/// A model before another one, which it asks for everything that it does not answer itself.
class ModelBefore : public Model {
 public:
  [[nodiscard]] const std::string& name() const override { return inner_->name(); }
  [[nodiscard]] const std::vector<std::string>& aliases() const override {
    return inner_->aliases();
  }
  [[nodiscard]] const engine::Capabilities& capabilities() const override {
    return inner_->capabilities();
  }
  [[nodiscard]] engine::EngineStats stats() const override { return inner_->stats(); }
  [[nodiscard]] engine::Engine* engine() const override { return inner_->engine(); }
  [[nodiscard]] const format::Format* format() const override { return inner_->format(); }
  [[nodiscard]] Result<Prepared, Refusal> prepare(
      const message::ChatRequest& request) const override {
    return inner_->prepare(request);
  }
  [[nodiscard]] GrammarCounts grammar_counts() const override { return inner_->grammar_counts(); }
  [[nodiscard]] Prices prices() const override { return inner_->prices(); }
  [[nodiscard]] bool takes_rlm() const override { return inner_->takes_rlm(); }
  [[nodiscard]] bool runs_code() const override { return inner_->runs_code(); }

 protected:
  explicit ModelBefore(std::shared_ptr<Model> inner) : inner_(std::move(inner)) {}

  const std::shared_ptr<Model> inner_;
};

}  // namespace tenon::chat
