#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tenon.h>

#include "tenon/capi/handles_for_test.h"

/// An engine of a program that uses tenon.h.
namespace tenon::capi {

/// Plays the tokens of the bundled model for given texts: the first request gets the first text,
/// and so on. With a matcher it leaves out tokens that the mask does not allow, and counts them.
/// Must outlive its services.
class ScriptedCaller {
 public:
  /// In place of a text: it refuses to begin.
  static constexpr std::string_view kRefuses = "(refuses)";

  explicit ScriptedCaller(std::vector<std::string> texts, std::chrono::milliseconds delay = {})
      : texts_(std::move(texts)), delay_(delay) {}
  ~ScriptedCaller() {
    for (std::thread& thread : threads_) thread.join();
  }
  ScriptedCaller(const ScriptedCaller&) = delete;
  ScriptedCaller& operator=(const ScriptedCaller&) = delete;

  [[nodiscard]] tenon_engine engine() {
    return {.size = sizeof(tenon_engine),
            .user = this,
            .start = start,
            .cancel = cancel,
            .context_tokens = 4096,
            .max_concurrent = 4};
  }
  /// Adds it to `service` as the model "scripted".
  void add_to(tenon_service* service) {
    const auto chat_template = made(tenon_template_load, text(model_path()));
    const tenon_engine functions = engine();
    ASSERT_EQ(told(tenon_service_add_engine(service, text("scripted"), &functions, bundled_vocab(),
                                            chat_template.get())),
              "ok");
  }

  [[nodiscard]] std::string prompt(std::size_t request) const {
    const std::lock_guard lock(mutex_);
    return prompts_.at(request);
  }
  [[nodiscard]] std::string request(std::size_t request) const {
    const std::lock_guard lock(mutex_);
    return requests_.at(request);
  }
  [[nodiscard]] std::size_t cancels() const {
    const std::lock_guard lock(mutex_);
    return cancels_;
  }
  /// How many tokens the masks did not allow.
  [[nodiscard]] std::size_t left_out() const {
    const std::lock_guard lock(mutex_);
    return left_out_;
  }

 private:
  static int start(void* user, tenon_generation* generation, const std::int32_t* prompt,
                   std::size_t count, tenon_text request, tenon_matcher* matcher) {
    auto& self = *static_cast<ScriptedCaller*>(user);
    tenon_string* text = nullptr;
    EXPECT_EQ(told(tenon_vocab_decode(bundled_vocab(), prompt, count, &text)), "ok");
    const std::lock_guard lock(self.mutex_);
    const std::string& answer = self.texts_.at(self.requests_.size() % self.texts_.size());
    self.prompts_.push_back(take(text));
    self.requests_.push_back(read(request));
    if (answer == kRefuses) return 1;
    self.threads_.emplace_back(
        [&self, generation, matcher, answer] { self.play(generation, matcher, answer); });
    return 0;
  }

  static void cancel(void* user, tenon_generation* generation) {
    auto& self = *static_cast<ScriptedCaller*>(user);
    EXPECT_EQ(tenon_generation_is_cancelled(generation), 1);
    const std::lock_guard lock(self.mutex_);
    ++self.cancels_;
  }

  void play(tenon_generation* generation, tenon_matcher* matcher, const std::string& answer) {
    std::vector<std::int32_t> ids(answer.size() + 1);
    std::size_t count = 0;
    EXPECT_EQ(
        told(tenon_vocab_encode(bundled_vocab(), text(answer), 1, ids.data(), ids.size(), &count)),
        "ok");
    ids.resize(count);
    ids.push_back(tenon_vocab_ends(bundled_vocab(), &count)[0]);
    std::vector<std::uint32_t> mask(tenon_mask_words(tenon_vocab_size(bundled_vocab())));
    for (const std::int32_t id : ids) {
      if (matcher != nullptr) {
        EXPECT_EQ(told(tenon_matcher_fill_mask(matcher, mask.data(), mask.size())), "ok");
        const auto bit = static_cast<std::uint32_t>(id);
        if ((mask[bit / 32] >> (bit % 32) & 1U) == 0) {
          const std::lock_guard lock(mutex_);
          ++left_out_;
          continue;
        }
      }
      std::this_thread::sleep_for(delay_);
      if (tenon_generation_token(generation, id) != 0) break;
    }
    tenon_generation_end(generation, text("stop"), {});
  }

  const std::vector<std::string> texts_;
  const std::chrono::milliseconds delay_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<std::thread> threads_;
  std::vector<std::string> prompts_;
  std::vector<std::string> requests_;
  std::size_t cancels_ = 0;
  std::size_t left_out_ = 0;
};

/// A service without models.
inline Owned<tenon_service> empty_service(std::string_view config = "[server]") {
  return made(tenon_service_open, text(config), text(""));
}

/// The answer to a Chat Completions request; its status comes first.
inline std::string answer_to(tenon_service* service, std::string_view body,
                             std::string_view path = "/v1/chat/completions") {
  int status = 0;
  tenon_string* answer = nullptr;
  const std::string error = told(tenon_service_ask(service, text(body.empty() ? "GET" : "POST"),
                                                   text(path), text(body), &status, &answer));
  if (error != "ok") return error;
  return std::to_string(status) + " " + take(answer);
}

}  // namespace tenon::capi
