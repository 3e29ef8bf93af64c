#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/http/client.h"
#include "tenon/hub/file_list.h"
#include "tenon/hub/settings.h"
#include "tenon/json/value.h"

namespace tenon::hub {

/// What happens while files are fetched, for showing progress.
struct Event {
  enum class Kind : std::uint8_t {
    begin,  ///< A file begins; `have` bytes of it are here from an earlier time.
    bytes,  ///< More of it has come.
    wait,   ///< Something delays it; `what` says what, and what is done about it.
    done,   ///< It is whole, and its hash is right.
    found,  ///< It was here already; nothing is fetched.
  };
  Kind kind;
  std::string_view file;
  std::size_t number = 0;  ///< From 1, of `count` files.
  std::size_t count = 0;
  std::uint64_t have = 0;
  std::uint64_t size = 0;
  std::string_view what;
};
/// Called by one thread at a time, perhaps not the one that waits for the file. It must return soon
/// and may be empty.
using Progress = std::function<void(const Event&)>;

/// A hub, asked over HTTP. For one thread.
///
/// Redirects are followed, to other hosts, too, but never from https to http. The token is sent
/// only to the hub's own address. An error that may pass (a connection that breaks or falls silent,
/// 408, 429, 5xx) leads to another attempt, after a pause that doubles or that the hub names, until
/// Settings::max_attempts attempts in a row have each brought less than a mebibyte.
///
/// It uses our own http::Client and not libcurl: the client streams with bounded memory, checks
/// certificates and refuses malformed answers, and redirects and the token are handled here in any
/// case. The client supports no proxies; behind one, HF_ENDPOINT can name a mirror.
class Transfer {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<Transfer>> create(const Settings& settings);

  /// The JSON document at `target`, below the hub's address. `next`, unless it is null, becomes the
  /// target of the next page, or "". Errors: `invalid` if the hub refuses (no such repository or
  /// revision, no right to it), saying what helps; `limit_exceeded` for too large a document;
  /// `unavailable` for what may be different later.
  [[nodiscard]] Expected<json::Value> get_json(const std::string& target, std::string* next,
                                               const Progress& progress);

  /// Fetches the bytes of `file`, at `target`, into `incomplete`, after those that are there
  /// already. Afterwards all are on the disk and have the file's hash; if the hash is wrong, none
  /// of them is kept. Errors as above; `unavailable` if the disk is full.
  [[nodiscard]] Status get_file(const std::string& target, const RemoteFile& file,
                                const std::filesystem::path& incomplete, const Progress& progress);

 private:
  struct Exchange;
  struct Sink;
  class Body;

  Transfer(Settings settings, std::unique_ptr<http::Client> client);
  Exchange ask(std::string url, const std::vector<http::Header>& headers, std::size_t max_bytes,
               Sink& sink);
  Exchange ask_once(const std::string& url, std::vector<http::Header> headers,
                    std::size_t max_bytes, Sink& sink);
  [[nodiscard]] Error refusal(const Exchange& exchange) const;
  Status wait_before_next(const Exchange& exchange, unsigned attempts, unsigned max_attempts,
                          const Progress& progress, Event event) const;
  Status fetch_rest(const std::string& target, const RemoteFile& file, Body& body,
                    const Progress& progress);

  const Settings settings_;
  const std::unique_ptr<http::Client> client_;
};

}  // namespace tenon::hub
