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

/// The error of a server that does not answer, or not as it should.
Error unavailable(std::string message);

/// Why an answer fails.
struct Trouble {
  Trouble(Error what, message::Denial why = {})  // NOLINT: an error alone is one
      : error(std::move(what)), denial(why) {}
  Error error;
  message::Denial denial;
};

/// What one event of a server's stream says, in no dialect. What came before a failure counts.
struct Delta {
  struct Token {
    TokenId id = 0;
    std::string bytes;  ///< "": the token ends the turn.
    bool is_control = false;
    std::optional<message::TokenLogprob> logprob{};
    std::uint32_t count = 1;  ///< Tokens that it is.
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
  bool is_of_answer = false;                       ///< Of a chat: it is, though it may say nothing.
  std::optional<message::FinishReason> end;        ///< The answer is whole.
  std::optional<Trouble> failure;                  ///< Instead: it ends behind all of this.
  std::optional<std::uint32_t> prompt_tokens;      ///< Where they are not known here.
  std::optional<std::uint32_t> completion_tokens;  ///< As the server counts them, up to here.
  std::optional<std::uint32_t> cached_tokens;
  std::optional<std::uint32_t> reasoning_tokens;  ///< Where they are not known here.
};

/// Reads the events of one answer, in their order, from one thread at a time. With Framing::chat it
/// gets null at a `[DONE]` that comes before any event says why the answer ends.
using DeltaReader = std::function<Delta(const json::Value& event)>;

/// Whether the request is at fault, rather than this server: its key, its address, its load. The
/// status is HTTP's, of the head or as an event tells it; 0: none is told.
using BlamesRequest = bool (*)(unsigned status, std::string_view said);
/// At 400, 413 and 422.
[[nodiscard]] bool blames_request(unsigned status, std::string_view said);

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
  /// Of the text of one answer, with 16 bytes for each of its pieces: some 800,000 tokens.
  static constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

  /// Fails with `invalid` for a bad URL. Nobody is asked yet.
  [[nodiscard]] static Expected<std::unique_ptr<Remote>> create(
      ServerAddress server, BlamesRequest blames = blames_request);

  /// What the server answers at once, however busy its model is (5 s at most, and no longer than
  /// this thread's patience). `invalid` where it says that the question is to blame, else
  /// `unavailable`.
  [[nodiscard]] Expected<json::Value> get(std::string_view path) const;
  /// The server is there, and says that it has nothing at `path`, or nothing that is JSON.
  [[nodiscard]] bool has_nothing_at(std::string_view path) const;
  [[nodiscard]] Expected<json::Value> post(std::string_view path, const json::Value& body) const;

  /// Posts `body` and feeds `sink` with what `read` makes of the events. A run that the server
  /// refuses ends with `invalid` and its words where the request is to blame, else `unavailable`
  /// and a Denial; an event with an `error` ends it, also after HTTP 200.
  ///
  /// Tokens are counted as the server counts them, else here, where the request has tokens: its
  /// server answers token by token then. Of other servers what nobody has told is estimated, and
  /// the usage says so: a token for each piece and for 8 bytes at most, and one for 4 bytes of the
  /// question.
  [[nodiscard]] Expected<std::unique_ptr<Run>> generate(std::string_view path, std::string body,
                                                        const GenerateRequest& request,
                                                        DeltaReader read,
                                                        std::shared_ptr<EventSink> sink,
                                                        Framing framing = Framing::sse) const;

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
  std::uint32_t context_tokens = 0;  ///< 0: not told.
};
/// The one of this name among those that the server lists at `path`, as OpenAI's API does ("": the
/// first). `unavailable` where there is none. Where `trusts_name`, one that is named is believed to
/// be there if the server is, and has no list or an empty one.
[[nodiscard]] Expected<ListedModel> find_model(const Remote& remote, std::string_view path,
                                               const std::string& name, bool trusts_name);

/// Fails where a server's context is smaller `now` than it was when it was met: the error says what
/// to do. One that is larger holds all that the model's does here.
[[nodiscard]] Status check_context(const std::string& url, std::uint32_t met, std::uint32_t now);

/// What a server says is wrong, with HTTP's status or one that an event tells (0: none): `invalid`
/// where `blames` the request, else `unavailable`. What is said of a key is not for clients, as
/// servers repeat some of it.
[[nodiscard]] Trouble refusal(unsigned status, const std::string& said,
                              BlamesRequest blames = blames_request);

/// What a server's answer has at a place: "" and 0 where there is no such thing.
[[nodiscard]] std::string text_at(const json::Value& value, std::string_view pointer);
[[nodiscard]] std::uint32_t count_at(const json::Value& value, std::string_view pointer);
/// The same, but that 0 is what it says.
[[nodiscard]] std::optional<std::uint32_t> told_at(const json::Value& value,
                                                   std::string_view pointer);

/// For servers whose seeds have 64 bits and a sign.
[[nodiscard]] inline std::int64_t signed_seed(std::uint64_t seed) {
  return static_cast<std::int64_t>(seed & 0x7fff'ffff'ffff'ffffULL);
}

/// The ids as JSON, written as they are: a prompt may have a hundred thousand.
[[nodiscard]] std::string ids_text(const std::vector<TokenId>& ids);

}  // namespace tenon::engine
