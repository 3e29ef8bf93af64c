#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/http/client.h"
#include "tenon/json/value.h"

namespace tenon::engine {

/// What one event of a server's stream says, in no dialect.
struct Delta {
  struct Token {
    TokenId id = 0;
    std::string bytes;  ///< "": the token ends the turn.
    bool is_control = false;
    std::optional<message::TokenLogprob> logprob{};
  };
  /// Of a call, as servers say it that read their models' calls themselves.
  struct Call {
    std::uint32_t index = 0;
    std::string name;
    std::string arguments;
  };
  std::string reasoning;  ///< Before the tokens.
  std::vector<Token> tokens;
  std::vector<Call> calls;                         ///< Behind them.
  std::optional<message::FinishReason> end;        ///< The answer is whole.
  std::optional<Error> failure;                    ///< Instead: it ends behind all of this.
  std::optional<std::uint32_t> prompt_tokens;      ///< Where they are not known here.
  std::optional<std::uint32_t> completion_tokens;  ///< As the server counts them.
  std::optional<std::uint32_t> cached_tokens;
};

/// Reads the events of one answer, in their order, from one thread at a time. An error ends the
/// answer.
using DeltaReader = std::function<Expected<Delta>(const json::Value& event)>;

/// What an answer's events come in.
enum class Framing : std::uint8_t {
  sse,    ///< Server-Sent Events.
  lines,  ///< Each is a line.
  /// Server-Sent Events of a chat, where `[DONE]` is an end, too; one document where the server
  /// says that it sends JSON.
  chat,
};

/// A server that makes tokens, as far as all of them are alike: questions with JSON answers, and
/// generations that are streams of events. Thread-safe; destroy it outside of a sink.
class Remote {
 public:
  struct Options {
    std::string url;                                   ///< "http://host:port"
    std::string api_key;                               ///< "": none.
    std::chrono::milliseconds silence_limit{120'000};  ///< Between two events.
    bool verifies_certificates = true;
  };

  /// Fails with `invalid` for a bad URL. Nobody is asked yet.
  [[nodiscard]] static Expected<std::unique_ptr<Remote>> create(Options options);

  /// What the server answers at once, however busy its model is (5 s at most). `invalid` where it
  /// says that the question is to blame, else `unavailable`.
  [[nodiscard]] Expected<json::Value> get(std::string_view path) const;
  [[nodiscard]] Expected<json::Value> post(std::string_view path, const json::Value& body) const;

  /// Posts `body` and feeds `sink` with what `read` makes of the events. A run that the server
  /// refuses ends with `invalid` and its words where the request is to blame, else `unavailable`;
  /// an event with an `error` ends it, also after HTTP 200.
  [[nodiscard]] Expected<std::unique_ptr<Run>> generate(std::string_view path, std::string body,
                                                        const GenerateRequest& request,
                                                        DeltaReader read,
                                                        std::shared_ptr<EventSink> sink,
                                                        Framing framing = Framing::sse) const;

  [[nodiscard]] const std::string& url() const { return options_.url; }

 private:
  Remote(Options options, std::unique_ptr<http::Client> client)
      : options_(std::move(options)), client_(std::move(client)) {}

  [[nodiscard]] http::ClientRequest question(std::string method, std::string_view path) const;
  [[nodiscard]] Expected<json::Value> ask(http::ClientRequest request) const;

  const Options options_;
  const std::unique_ptr<http::Client> client_;
};

/// What a server's answer has at a place: "" and 0 where there is no such thing.
[[nodiscard]] std::string text_at(const json::Value& value, std::string_view pointer);
[[nodiscard]] std::uint32_t count_at(const json::Value& value, std::string_view pointer);

/// The ids as JSON, written as they are: a prompt may have a hundred thousand.
[[nodiscard]] std::string ids_text(const std::vector<TokenId>& ids);

}  // namespace tenon::engine
