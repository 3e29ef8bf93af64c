#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {

/// One answer that a ScriptedEngine gives.
struct Script {
  std::string text;  ///< Given byte by byte; texts of control tokens as control tokens.
  /// How it ends after the text: `stop` with the tokenizer's eos (if it has one and the text does
  /// not end the generation itself), `length` as if the context were full, `error` with `error`.
  message::FinishReason end = message::FinishReason::stop;
  Error error{Errc::unavailable, "the script failed"};
  std::chrono::microseconds delay{0};  ///< Before each token.
};

/// An engine for tests of the layers above. It obeys the whole contract of Engine (own thread,
/// max_tokens, time limit, cancel, pause, logprobs, usage, several runs at a time), but the test
/// writes its tokens down beforehand. The same script gives the same events on every machine. With
/// a grammar it leaves out tokens that the grammar forbids; an answer that then cannot end is cut
/// as by length.
///
///     ScriptedEngine engine({}, {{.text = "<tool_call>\n{...}\n</tool_call>"}});
///     auto run = engine.start({.prompt = ids}, sink);
///
/// Not part of the library: target tenon::engine_scripted, for TEST_LINKS.
class ScriptedEngine final : public Engine {
 public:
  struct Options {
    std::vector<std::string> controls = {"<|im_start|>", "<|im_end|>",      "<tool_call>",
                                         "</tool_call>", "<tool_response>", "</tool_response>",
                                         "<|endoftext|>"};
    std::string bos;
    std::string eos = "<|im_end|>";
    bool adds_bos = false;
    std::string chat_template;
    std::uint32_t context_tokens = 16384;
    std::uint32_t max_concurrent = 8;
    std::uint32_t queue_limit = 64;
    ConstrainedBy constrained_by = ConstrainedBy::none;
    bool is_remote = false;
  };

  /// Which script answers a request; called on the thread that calls start().
  using Choice = std::function<Expected<Script>(const GenerateRequest& request)>;

  /// Answers with the script that `choice` returns; its error becomes start()'s.
  ScriptedEngine(const Options& options, Choice choice);
  /// Answers the first request with the first script and so on; after the last it begins again.
  /// `scripts` is not empty.
  ScriptedEngine(const Options& options, std::vector<Script> scripts);
  /// Cancels the runs and waits for their ends. Not from within a sink.
  ~ScriptedEngine() override;
  ScriptedEngine(const ScriptedEngine&) = delete;
  ScriptedEngine& operator=(const ScriptedEngine&) = delete;

  [[nodiscard]] const Capabilities& capabilities() const override;
  [[nodiscard]] const vocab::Tokenizer& tokenizer() const override;
  [[nodiscard]] std::string_view chat_template() const override;
  /// Only the number of unfinished runs is set.
  [[nodiscard]] EngineStats stats() const override;
  [[nodiscard]] Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                                     std::shared_ptr<EventSink> sink) override;

  /// The requests that were started, in order. Thread-safe.
  [[nodiscard]] std::vector<GenerateRequest> requests() const;
  /// The prompt of a request as text.
  [[nodiscard]] std::string text_of(const std::vector<TokenId>& prompt) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::engine
