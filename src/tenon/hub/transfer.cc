#include "tenon/hub/transfer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <future>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "tenon/base/descriptor.h"
#include "tenon/base/failure.h"
#include "tenon/http/message.h"
#include "tenon/http/wire.h"
#include "tenon/hub/digest.h"

// How a file is fetched
//
// get_file() opens the unfinished file, hashes what it has (Body::open), and fetch_rest() asks for
// the missing bytes with a Range header until all have come. Three loops stand inside one another:
//  - ask() follows redirects. The token goes only to the hub's own address, and once a redirect has
//    left it, no later request of that exchange gets the token, even if it leads back.
//  - fetch_rest() and get_json() try again after errors that may pass. wait_before_next() decides
//    which those are and how long to pause. An attempt that brings at least kProgress bytes starts
//    the count anew, so a slow download may break any number of times.
//  - get_file() starts over once if the hash is wrong although all bytes came, since bytes from an
//    earlier run may be the cause.
// The body goes to the disk and into the hash as it comes (Body::take), so memory stays bounded. A
// server that sends too much, the wrong part, or too slowly is stopped there. Nothing counts as
// fetched before it was flushed and its hash is right.

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Headers = std::vector<http::Header>;

constexpr unsigned kMaxRedirects = 10;
constexpr std::uint64_t kProgress = 1 << 20;  // an attempt that brings this much does not count
constexpr std::size_t kBlock = 1 << 20;
constexpr unsigned kFirstContacts = 3;  // attempts without any answer, before the cache is used
constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max() / 2;
constexpr std::size_t kMaxWords = 300;  // bytes of a hub's text that our messages quote

bool is_redirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool may_succeed_later(unsigned status) {
  return status == 408 || status == 429 || status >= 500;
}

// "https://host:443", always with the port and in lower case, so that equal origins are equal
// texts.
std::string origin_of(const http::Url& url) {
  std::string host = url.host;
  std::ranges::transform(host, host.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return (url.is_https ? "https://" : "http://") + host + ":" + std::to_string(url.port);
}

std::string origin_of(const std::string& url) {
  const auto parsed = http::parse_url(url);
  return parsed ? origin_of(*parsed) : std::string();
}

// The URL that `location` means in an answer from `base` (RFC 3986, 5.2, the cases that servers
// send); "" if it is not a URL that can be requested.
std::string redirected(const std::string& base, std::string_view location) {
  location = location.substr(0, location.find('#'));
  std::string url;
  const std::size_t scheme = base.find("://");
  const std::size_t path = std::min(base.find('/', scheme + 3), base.size());
  if (location.find("://") != std::string_view::npos &&
      location.find("://") < location.find_first_of("/?")) {
    url = location;
  } else if (location.starts_with("//")) {
    url = base.substr(0, scheme + 1) + std::string(location);
  } else if (location.starts_with('/')) {
    url = base.substr(0, path) + std::string(location);
  } else {
    const std::string whole = base.substr(0, base.find('?'));
    const std::size_t slash = whole.rfind('/');
    url = (slash > scheme + 2 ? whole.substr(0, slash + 1) : whole + "/") + std::string(location);
  }
  return http::parse_url(url) ? url : std::string();
}

// Text of another host, made fit for a message of ours.
std::string plain(std::string_view words) {
  std::string text;
  for (const char c : words.substr(0, kMaxWords)) {
    text += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? ' ' : c;
  }
  return text;
}

// The target of `rel="next"` in a Link header, if it is of the same origin; else "".
std::string next_page(const std::string& url, const Headers& headers) {
  const std::string_view link = http::find_header(headers, "link");
  const std::size_t end = link.find(">; rel=\"next\"");
  if (end == std::string_view::npos) return {};
  const std::size_t begin = link.rfind('<', end);
  if (begin == std::string_view::npos) return {};
  const std::string next = redirected(url, link.substr(begin + 1, end - begin - 1));
  return origin_of(next) == origin_of(url) ? next : std::string();
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
  return number;
}

// "bytes 5-9/10" says that the answer's bytes begin at 5 of 10.
bool begins_at(std::string_view range, std::uint64_t begin, std::uint64_t size) {
  return range.starts_with("bytes " + std::to_string(begin) + "-") &&
         range.ends_with("/" + std::to_string(size));
}

}  // namespace

// Receives the body of an answer. Called on the client's thread.
struct Transfer::Sink {
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  /// Called at the head of an answer that is not a redirect; false: the body is not wanted.
  virtual bool begin(unsigned status, const Headers& headers) = 0;
  /// False: no more of the body is wanted.
  virtual bool take(std::string_view bytes) = 0;
};

struct Transfer::Exchange {
  std::string url;  // the one that answered, after redirects
  unsigned status = 0;
  Headers headers;
  Status end;
  bool is_final = false;  // another attempt would end in the same way
};

Transfer::Transfer(Settings settings, std::unique_ptr<http::Client> client)
    : settings_(std::move(settings)), client_(std::move(client)) {}

Expected<std::unique_ptr<Transfer>> Transfer::create(const Settings& settings) {
  auto client = http::Client::create({.connect_timeout = settings.connect_timeout});
  if (!client) return Unexpected(client.error());
  return std::unique_ptr<Transfer>(new Transfer(settings, *std::move(client)));
}

// One request without redirects. The sink gets the body as it comes; it may stop it.
Transfer::Exchange Transfer::ask_once(const std::string& url, Headers headers,
                                      std::size_t max_bytes, Sink& sink) {
  Exchange exchange{.url = url};
  // Shared: on_end may still be within set_value() when we return.
  const auto ended = std::make_shared<std::promise<Status>>();
  bool wants_more = true;
  headers.push_back({"Accept-Encoding", "identity"});
  auto call = client_->send(
      {.url = url,
       .headers = std::move(headers),
       .silence_limit = settings_.silence_limit,
       .max_body_bytes = max_bytes},
      {.on_head =
           [&](unsigned status, const Headers& answered) {
             exchange.status = status;
             exchange.headers = answered;
             wants_more = !is_redirect(status) && sink.begin(status, answered);
           },
       .on_body = [&](std::string_view bytes) { wants_more = wants_more && sink.take(bytes); },
       .wanted = [&] { return wants_more ? http::Wanted::all : http::Wanted::nothing; },
       .on_end = [ended](Status end) { ended->set_value(std::move(end)); }});
  exchange.end = call ? ended->get_future().get() : Status(Unexpected(call.error()));
  return exchange;
}

Transfer::Exchange Transfer::ask(std::string url, const Headers& headers, std::size_t max_bytes,
                                 Sink& sink) {
  const std::string home = origin_of(settings_.endpoint);
  bool is_home = true;
  for (unsigned redirects = 0;; ++redirects) {
    Headers sent = headers;
    sent.push_back({"User-Agent", "tenon"});
    // Once a redirect has left the hub's address, the token is not sent any more.
    is_home = is_home && origin_of(url) == home;
    if (is_home && !settings_.token.empty()) {
      sent.push_back({"Authorization", "Bearer " + settings_.token});
    }
    Exchange exchange = ask_once(url, std::move(sent), max_bytes, sink);
    if (!exchange.end || !is_redirect(exchange.status)) return exchange;
    const std::string_view location = http::find_header(exchange.headers, "location");
    std::string next = redirected(url, location);
    const auto refuse = [&](std::string_view why) {
      exchange.end =
          unavailable(url + " redirects to '" + plain(location) + "': " + std::string(why));
      exchange.is_final = true;
      return std::move(exchange);
    };
    if (next.empty()) return refuse("that is nothing that can be fetched");
    if (url.starts_with("https:") && !next.starts_with("https:")) {
      return refuse("that is not encrypted, so it is not followed");
    }
    if (redirects == kMaxRedirects) return refuse("that is one redirect too many");
    url = std::move(next);
  }
}

// Says what the hub's refusal means for the user.
Error Transfer::refusal(const Exchange& exchange) const {
  const std::string_view code = http::find_header(exchange.headers, "x-error-code");
  const std::string said = plain(http::find_header(exchange.headers, "x-error-message"));
  std::string text = exchange.url.substr(0, exchange.url.find('?')) + ": " +
                     std::to_string(exchange.status) + " " +
                     std::string(http::reason_phrase(exchange.status));
  if (!said.empty()) text += " (" + said + ")";
  const bool has_token = !settings_.token.empty();
  // x-error-code says more than the status: the hub answers 401 for a repository that is private or
  // does not exist, so that its name is not told.
  if (code == "GatedRepo" || exchange.status == 403) {
    text += has_token
                ? "; the owner of the token in " + settings_.token_place +
                      " has to accept the repository's terms on its page first, and the token "
                      "needs the right to read it"
                : "; its terms have to be accepted on its page, then a token in HF_TOKEN opens it";
  } else if (code == "RevisionNotFound") {
    text += "; the repository has no such branch, tag or commit";
  } else if (code == "EntryNotFound") {
    text += "; the file is not in the repository any more: try again";
  } else if (exchange.status == 401 || exchange.status == 404) {
    text += has_token ? "; there is no such repository, or the token in " + settings_.token_place +
                            " has no right to it: check the name"
                      : "; there is no such repository, or it is private: check the name, and for "
                        "a private one set HF_TOKEN";
  } else if (may_succeed_later(exchange.status)) {
    return {Errc::unavailable, text + "; try again later"};
  }
  return {Errc::invalid, std::move(text)};
}

// Waits before another attempt; fails if another attempt makes no sense.
Status Transfer::wait_before_next(const Exchange& exchange, unsigned attempts,
                                  unsigned max_attempts, const Progress& progress,
                                  Event event) const {
  const bool has_failed = !exchange.end;
  if (has_failed && (exchange.is_final || exchange.end.error().code != Errc::unavailable)) {
    return exchange.end;
  }
  if (!has_failed && !may_succeed_later(exchange.status)) return Unexpected(refusal(exchange));
  Error why = has_failed ? exchange.end.error() : refusal(exchange);
  if (attempts >= max_attempts) {
    why.message += " (" + std::to_string(attempts) + " attempts)";
    return Unexpected(std::move(why));
  }
  // Doubles with each attempt, unless the hub names a time itself.
  std::chrono::milliseconds pause = settings_.first_pause * (1U << std::min(attempts - 1, 10U));
  if (const auto wanted = number_of(http::find_header(exchange.headers, "retry-after"));
      wanted && !has_failed) {
    const std::uint64_t most = static_cast<std::uint64_t>(settings_.max_pause.count()) / 1000;
    // A user would rather hear of it than wait for an hour without a sign.
    if (*wanted > most) {
      why.message += "; it asks to wait " + std::to_string(*wanted) + " seconds";
      return Unexpected(std::move(why));
    }
    pause = std::chrono::seconds(*wanted);
  }
  pause = std::min(pause, settings_.max_pause);
  if (progress) {
    const std::string what =
        why.message + "; again in " +
        std::to_string(std::chrono::ceil<std::chrono::seconds>(pause).count()) + " s";
    event.kind = Event::Kind::wait;
    event.what = what;
    progress(event);
  }
  std::this_thread::sleep_for(pause);
  return {};
}

// ------------------------------------------------------------------------------------ documents

Expected<json::Value> Transfer::get_json(const std::string& target, std::string* next,
                                         const Progress& progress) {
  struct Text final : Sink {
    bool begin(unsigned status, const Headers& /*headers*/) override {
      text.clear();
      return status == 200;
    }
    bool take(std::string_view bytes) override {
      text += bytes;
      return true;
    }
    std::string text;
  };
  const std::string url = target.starts_with('/') ? settings_.endpoint + target : target;
  for (unsigned attempts = 1;; ++attempts) {
    Text sink;
    const Exchange exchange = ask(url, {}, settings_.max_list_bytes, sink);
    if (!exchange.end || exchange.status != 200) {
      const unsigned most =
          exchange.end ? settings_.max_attempts : std::min(settings_.max_attempts, kFirstContacts);
      if (Status waited = wait_before_next(exchange, attempts, most, progress, {}); !waited) {
        return Unexpected(waited.error());
      }
      continue;
    }
    if (next != nullptr) *next = next_page(exchange.url, exchange.headers);
    auto value = json::parse(sink.text);
    if (!value) {
      return unavailable(exchange.url + " answers no JSON (" + value.error().message +
                         "), so it is no hub: check HF_ENDPOINT, and whether this network wants a "
                         "page filled in first");
    }
    return value;
  }
}

// ---------------------------------------------------------------------------------------- files

// The file that grows, and the hash of its bytes.
class Transfer::Body final : public Sink {
 public:
  Body(const RemoteFile& file, const fs::path& path, const Progress& progress,
       const Settings& settings)
      : file_(file), path_(path), progress_(progress), settings_(settings), digest_(fresh()) {}

  /// Opens the file and hashes the bytes that it has.
  Status open();
  /// Drops the bytes that the file has.
  Status restart();
  /// Writes all bytes to the disk.
  Status flush();
  [[nodiscard]] bool is_right() { return digest_.hex() == file_.blob(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  struct Trouble {
    std::string why;
    bool is_final;  // another attempt would end in the same way
  };
  /// Why the body stopped the answer.
  [[nodiscard]] const std::optional<Trouble>& trouble() const { return trouble_; }
  void forget_trouble() { trouble_.reset(); }

  bool begin(unsigned status, const Headers& headers) override;
  bool take(std::string_view bytes) override;

 private:
  [[nodiscard]] Digest fresh() const {
    return file_.sha256.empty() ? Digest::git_blob(file_.size) : Digest::sha256();
  }
  bool stop(std::string why, bool is_final) {
    trouble_ = Trouble{.why = std::move(why), .is_final = is_final};
    return false;
  }
  Status failed() const {
    return unavailable("cannot write " + path_.string() + ": " +
                       std::generic_category().message(errno));
  }

  const RemoteFile& file_;
  const fs::path& path_;
  const Progress& progress_;
  const Settings& settings_;
  Digest digest_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
  std::optional<Trouble> trouble_;
  Clock::time_point window_;  // window_bytes_ have come since then
  std::uint64_t window_bytes_ = 0;
};

Status Transfer::Body::open() {
  constexpr int kMode = 0644;
  descriptor_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode));
  if (!descriptor_.is_open()) return failed();
  std::string block(kBlock, '\0');
  while (true) {
    const ssize_t count = ::read(descriptor_.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    if (count == 0) return {};
    size_ += static_cast<std::uint64_t>(count);
    // An unfinished file that is too large is of no use.
    if (size_ > file_.size) return restart();
    digest_.add(std::string_view(block).substr(0, static_cast<std::size_t>(count)));
  }
}

Status Transfer::Body::restart() {
  digest_ = fresh();
  size_ = 0;
  if (::ftruncate(descriptor_.get(), 0) != 0 || ::lseek(descriptor_.get(), 0, SEEK_SET) != 0)
    return failed();
  return {};
}

Status Transfer::Body::flush() {
  return ::fsync(descriptor_.get()) == 0 ? Status() : failed();
}

// Decides by the head whether the body continues what we have, is the whole file, or is useless.
bool Transfer::Body::begin(unsigned status, const Headers& headers) {
  window_ = Clock::now();
  window_bytes_ = 0;
  if (status != 200 && status != 206 && status != 416) return false;
  const std::string range = plain(http::find_header(headers, "content-range"));
  const bool goes_on = status == 206 && begins_at(range, size_, file_.size);
  // A server that ignores the range sends the whole file. If it rejects the range or sends another
  // part, the next request asks for the whole file.
  if (!goes_on && size_ > 0) {
    if (Status emptied = restart(); !emptied) return stop(emptied.error().message, true);
  }
  if (status == 416) return false;
  if (status == 206 && !goes_on) {
    return stop("another part of the file came than was asked for (" + range + ")", false);
  }
  // Found out now, and not after gigabytes: the list and the file do not belong together.
  const auto length = number_of(http::find_header(headers, "content-length"));
  if (length && *length != file_.size - size_) {
    return stop("the file has " + std::to_string(*length + size_) +
                    " bytes, and the hub's list says " + std::to_string(file_.size),
                true);
  }
  return true;
}

bool Transfer::Body::take(std::string_view bytes) {
  if (bytes.size() > file_.size - size_) {
    return stop(
        "more bytes came than the " + std::to_string(file_.size) + " that the hub's list says",
        true);
  }
  digest_.add(bytes);
  window_bytes_ += bytes.size();
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return stop(failed().error().message, true);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  if (progress_) {
    progress_({.kind = Event::Kind::bytes, .file = file_.path, .have = size_, .size = file_.size});
  }
  const auto now = Clock::now();
  // The speed is judged over a window: a connection that only drips would never run into a limit on
  // silence.
  if (now - window_ < settings_.slow_window) return true;
  const bool is_slow = window_bytes_ < settings_.slow_bytes;
  window_ = now;
  window_bytes_ = 0;
  if (!is_slow || size_ == file_.size) return true;
  return stop("hardly anything comes any more", false);
}

// Asks until the body has all its bytes.
Status Transfer::fetch_rest(const std::string& target, const RemoteFile& file, Body& body,
                            const Progress& progress) {
  std::uint64_t counted = body.size();
  for (unsigned attempts = 1; body.size() < file.size; ++attempts) {
    Headers headers;
    if (body.size() > 0) headers.push_back({"Range", "bytes=" + std::to_string(body.size()) + "-"});
    body.forget_trouble();
    // No limit here: the body itself knows how many bytes it takes.
    Exchange exchange = ask(settings_.endpoint + target, headers, kAnySize, body);
    const std::string from = exchange.url.substr(0, exchange.url.find('?'));
    if (const auto& trouble = body.trouble()) {
      exchange.end = unavailable(from + ": " + trouble->why);
      exchange.is_final = trouble->is_final;
    }
    if (exchange.end && body.size() == file.size) return {};
    if (body.size() >= counted + kProgress) {
      counted = body.size();
      attempts = 1;
    }
    if (exchange.end &&
        (exchange.status == 200 || exchange.status == 206 || exchange.status == 416)) {
      // The answer ended properly, but without all bytes of the file.
      exchange.end = unavailable(from + ": only " + std::to_string(body.size()) + " of " +
                                 std::to_string(file.size) + " bytes came");
    }
    const Event event{
        .kind = Event::Kind::wait, .file = file.path, .have = body.size(), .size = file.size};
    if (Status waited =
            wait_before_next(exchange, attempts, settings_.max_attempts, progress, event);
        !waited) {
      return waited;
    }
    // The body may have started over.
    counted = std::min(counted, body.size());
  }
  return {};
}

Status Transfer::get_file(const std::string& target, const RemoteFile& file,
                          const fs::path& incomplete, const Progress& progress) {
  for (bool is_first = true;; is_first = false) {
    Body body(file, incomplete, progress, settings_);
    if (Status opened = body.open(); !opened) return opened;
    const bool had_some = body.size() > 0;
    if (progress) {
      progress(
          {.kind = Event::Kind::begin, .file = file.path, .have = body.size(), .size = file.size});
    }
    if (Status fetched = fetch_rest(target, file, body, progress); !fetched) return fetched;
    if (Status flushed = body.flush(); !flushed) return flushed;
    if (body.is_right()) return {};
    std::error_code ignored;
    fs::remove(incomplete, ignored);
    const std::string why = file.path +
                            ": what came has another hash than the hub's list says, so it was "
                            "removed";
    // Bytes from an earlier run may be the cause: starts over once.
    if (!is_first || !had_some) {
      return unavailable(why +
                         "; try again, and if that does not help, something between here "
                         "and the hub changes files");
    }
    if (progress) {
      const std::string what = why + ", and is fetched once more from its beginning";
      progress({.kind = Event::Kind::wait, .file = file.path, .size = file.size, .what = what});
    }
  }
}

}  // namespace tenon::hub
