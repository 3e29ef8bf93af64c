#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"
#include "tenon/http/client.h"
#include "tenon/json/value.h"

namespace tenon::engine {

/// The error for a server that does not answer, or does not answer as it should.
Error unavailable(std::string message);

/// Why an answer fails.
struct Trouble {
  Trouble(Error what, message::Denial why = {})  // NOLINT: converts from an error
      : error(std::move(what)), denial(why) {}
  Error error;
  message::Denial denial;
};

/// One event of a server's stream, the same for all dialects. What comes before a failure counts.
struct Delta {
  struct Token {
    TokenId id = 0;
    std::string bytes;  ///< "": the token ends the turn.
    bool is_control = false;
    std::optional<message::TokenLogprob> logprob{};
    std::uint32_t count = 1;  ///< How many tokens it is.
  };
  /// A piece of a call, from servers that parse their models' calls themselves.
  struct Call {
    std::uint32_t index = 0;
    std::string name;
    std::string arguments;
  };
  std::string reasoning;  ///< Comes before the tokens.
  std::vector<Token> tokens;
  std::vector<Call> calls;                         ///< Come after the tokens.
  bool is_of_answer = false;                       ///< In a chat: belongs to it, perhaps empty.
  std::optional<message::FinishReason> end;        ///< The answer is whole.
  std::optional<Trouble> failure;                  ///< The answer fails after all of this.
  std::optional<std::uint32_t> prompt_tokens;      ///< If they are not known here.
  std::optional<std::uint32_t> completion_tokens;  ///< As the server counts them, up to here.
  std::optional<std::uint32_t> cached_tokens;
  std::optional<std::uint32_t> reasoning_tokens;  ///< If they are not known here.
};

/// Reads the events of one answer, in order, from one thread at a time. With Framing::chat it is
/// called with null for a `[DONE]` that comes before any event says why the answer ends.
using DeltaReader = std::function<Delta(const json::Value& event)>;

/// Whether the request is wrong, and not this server (its key, its address, its load). The status
/// is that of the HTTP response, or one that an event names; 0: none is known.
using BlamesRequest = bool (*)(unsigned status, std::string_view said);
/// True at 400, 413 and 422.
[[nodiscard]] bool blames_request(unsigned status, std::string_view said);

/// How events are separated.
enum class Framing : std::uint8_t {
  sse,    ///< Server-Sent Events.
  lines,  ///< Each event is a line.
  /// Server-Sent Events of a chat, which `[DONE]` may end; or one document, if the server says that
  /// it sends JSON.
  chat,
};

/// How the answer to one request is read; each answer has its own.
struct Reading {
  DeltaReader read;
  Framing framing = Framing::sse;
  BlamesRequest blames = blames_request;
};

/// What all upstreams have in common: questions with JSON answers, and generations that are streams
/// of events. Thread-safe; destroy it outside of a sink.
class Remote {
 public:
  /// For the text of one answer, plus 16 bytes for each of its pieces: some 800,000 tokens.
  static constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

  /// Fails with `invalid` for a bad URL. Sends no request yet.
  [[nodiscard]] static Expected<std::unique_ptr<Remote>> create(
      ServerAddress server, BlamesRequest blames = blames_request);

  /// For questions that the server answers at once, even if its model is busy. Waits at most 5 s
  /// and no longer than this thread's patience. Fails with `invalid` if the server says that the
  /// question is wrong, else with `unavailable`.
  [[nodiscard]] Expected<json::Value> get(std::string_view path) const;
  /// Whether the server is there, but has nothing at `path`, or nothing that is JSON.
  [[nodiscard]] bool has_nothing_at(std::string_view path) const;
  [[nodiscard]] Expected<json::Value> post(std::string_view path, const json::Value& body) const;

  /// Posts `body` and gives `sink` what `reading` makes of the events. A run that the server
  /// refuses ends with `invalid` and the server's message if the request is wrong, else with
  /// `unavailable` and a Denial. An event with an `error` ends the run, also after HTTP 200.
  ///
  /// Tokens are counted by the server. If it does not count and the request has token ids, they are
  /// counted here, since such a server answers token by token. Otherwise they are estimated, and
  /// the usage says so: for the answer at least one per piece and one per 8 bytes, for the prompt
  /// one per 4 bytes of the request.
  [[nodiscard]] Expected<std::unique_ptr<Run>> generate(std::string_view path, std::string body,
                                                        const GenerateRequest& request,
                                                        Reading reading,
                                                        std::shared_ptr<EventSink> sink) const;

  [[nodiscard]] const std::string& url() const { return server_.url; }

 private:
  Remote(ServerAddress server, BlamesRequest blames, std::unique_ptr<http::Client> client)
      : server_(std::move(server)), blames_(blames), client_(std::move(client)) {}

  [[nodiscard]] http::ClientRequest question(std::string method, std::string_view path) const;
  [[nodiscard]] Expected<json::Value> ask(http::ClientRequest request) const;
  [[nodiscard]] Expected<http::Response> fetch(http::ClientRequest request) const;

  const ServerAddress server_;
  const BlamesRequest blames_;
  const std::unique_ptr<http::Client> client_;
};

/// A model in a server's list.
struct ListedModel {
  std::string name;
  std::uint32_t context_tokens = 0;  ///< 0: the server does not tell.
};
/// The model of this name ("": the first) in the list that the server has at `path`, as in OpenAI's
/// API. Fails with `unavailable` if it is not there. With `trusts_name`, a named model is assumed
/// to be there if the server is there and has no list or an empty one.
[[nodiscard]] Expected<ListedModel> find_model(const Remote& remote, std::string_view path,
                                               const std::string& name, bool trusts_name);

/// Fails if a server's context is smaller `now` than it was when we connected; the error says what
/// to do. A larger one is fine.
[[nodiscard]] Status check_context(const std::string& url, std::uint32_t met, std::uint32_t now);

/// The error for a server's message, with the HTTP status or one that an event names (0: none):
/// `invalid` if `blames` says that the request is wrong, else `unavailable`. Messages about a key
/// are not passed on to clients, because servers repeat parts of the key.
[[nodiscard]] Trouble refusal(unsigned status, const std::string& said,
                              BlamesRequest blames = blames_request);

/// What an error says in words: its message, detail, reason or the like, at any depth up to 4; a
/// list's are joined. "" if it has no words.
[[nodiscard]] std::string words_of(const json::Value& error, unsigned depth = 0);
/// The value at a place of a server's answer; "" or 0 if it is absent.
[[nodiscard]] std::string text_at(const json::Value& value, std::string_view pointer);
[[nodiscard]] std::uint32_t count_at(const json::Value& value, std::string_view pointer);
/// The same, but distinguishes 0 from an absent value.
[[nodiscard]] std::optional<std::uint32_t> told_at(const json::Value& value,
                                                   std::string_view pointer);

/// For servers whose seeds have 64 bits and a sign.
[[nodiscard]] inline std::int64_t signed_seed(std::uint64_t seed) {
  return static_cast<std::int64_t>(seed & 0x7fff'ffff'ffff'ffffULL);
}

/// The ids as JSON text, made directly because a prompt may have a hundred thousand.
[[nodiscard]] std::string ids_text(const std::vector<TokenId>& ids);

}  // namespace tenon::engine
