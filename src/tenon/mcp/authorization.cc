#include "tenon/mcp/authorization.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <openssl/evp.h>

#include "tenon/base/failure.h"
#include "tenon/base/ids.h"
#include "tenon/http/client.h"
#include "tenon/http/server.h"
#include "tenon/json/members.h"
#include "tenon/json/value.h"
#include "tenon/mcp/encoding.h"
#include "tenon/mcp/token_store.h"
#include "tenon/mcp/transport.h"

// How a token is got
//
// renew() is called with the server's refusal, and tries the ways to a token in the order that the
// header names. A login has these steps:
// - The metadata of the resource (RFC 9728) names the authorization server, and the metadata of
//   that one (RFC 8414 or OpenID Connect) names its addresses.
// - The client is known by a configured id, by a metadata document, or is registered (RFC 7591).
// - The user logs in at an address that has a challenge of PKCE and a state. The answer comes to a
//   server on a port of this machine, which takes only one with that state.
// - The code in the answer is exchanged for a token, which is written to the token store.
//
// One thread gets a token at a time. Others that were refused wait, and then find the new token.

namespace tenon::mcp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskLimit{10'000};
constexpr std::size_t kMaxAnswerBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxTold = 200;  // bytes of a server's words in an error
constexpr std::size_t kMaxTokenBytes = 16'384;

// "https://host:port" of an address. A text without "://" is returned whole: `size - 3 + 3`, which
// may wrap around, then is its end.
std::string_view origin_of(std::string_view url) {
  const auto host = std::min(url.find("://"), url.size() - 3) + 3;
  return url.substr(0, url.find_first_of("/?#", host));
}

// The path of an address without the slash at its end; "" for the root.
std::string_view path_of(std::string_view url) {
  std::string_view path = url.substr(origin_of(url).size());
  path = path.substr(0, path.find_first_of("?#"));
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// Whether the address is on this machine, where http is as safe as https.
bool is_loopback(std::string_view url) {
  const auto parsed = http::parse_url(url);
  return parsed &&
         (parsed->host == "localhost" || parsed->host == "::1" || parsed->host.starts_with("127."));
}

// The strings of an array; empty if there is no such array.
std::vector<std::string> list(const json::Value& from, std::string_view key) {
  std::vector<std::string> texts;
  const json::Value* const found = from.find(key);
  if (found == nullptr || found->if_array() == nullptr) return texts;
  for (const json::Value& one : *found->if_array()) {
    if (one.if_string() != nullptr) texts.push_back(*one.if_string());
  }
  return texts;
}

bool has(const std::vector<std::string>& texts, std::string_view one) {
  return std::ranges::find(texts, one) != texts.end();
}

// Scopes are words with spaces between (RFC 6749, 3.3): "a b a" becomes {"a", "b"}.
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (!word.empty() && !has(found, word)) found.emplace_back(word);
  }
  return found;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& one : texts) all += (all.empty() ? "" : " ") + one;
  return all;
}

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return "";
  }
  return {reinterpret_cast<const char*>(digest.data()), size};
}

/// Reads the parameters of a challenge: `Bearer scope="a b", error="insufficient_scope"`. The
/// header may have challenges of several schemes (RFC 9110, 11.6.1), with commas between them as
/// between parameters. A word without '=' begins the next scheme.
class ChallengeReader {
 public:
  explicit ChallengeReader(std::string_view text) : text_(text) {}

  // The value of a parameter of the scheme Bearer; "" without it.
  std::string value(std::string_view wanted) {
    rest_ = text_;
    bool is_bearer = false;
    while (!rest_.empty()) {
      skip(" \t,");
      const std::string name = lower(take_word());
      if (name.empty()) return "";
      skip(" \t");
      if (!rest_.starts_with('=')) {
        is_bearer = name == "bearer";
        continue;
      }
      rest_.remove_prefix(1);
      skip(" \t");
      std::string told = take_value();
      if (is_bearer && name == wanted) return told;
    }
    return "";
  }

 private:
  static std::string lower(std::string_view word) {
    std::string out(word);
    for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return out;
  }
  void skip(std::string_view marks) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(marks), rest_.size()));
  }
  std::string_view take_word() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t,=\""));
    rest_.remove_prefix(word.size());
    return word;
  }
  std::string take_value() {
    if (!rest_.starts_with('"')) return std::string(take_word());
    std::string told;
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != '"'; ++at) {
      if (rest_[at] == '\\' && at + 1 < rest_.size()) ++at;
      told += rest_[at];
    }
    rest_.remove_prefix(std::min(at + 1, rest_.size()));
    return told;
  }

  const std::string_view text_;
  std::string_view rest_;
};

/// What an authorization server says about itself.
struct Issuer {
  std::string name;  // its address, as the server of tools writes it
  std::string authorization_endpoint;
  std::string token_endpoint;
  std::string registration_endpoint;
  std::vector<std::string> auth_methods;
  std::vector<std::string> scopes;
  bool takes_metadata_documents = false;
  bool names_itself = false;  // in the answer to a login (RFC 9207)
};

/// A server of tools and where its tokens come from.
struct Found {
  std::string resource;
  std::vector<std::string> scopes;
  Issuer issuer;
};

/// Waits on a port of this machine for the browser that comes back from a login.
class Callback {
 public:
  // `port` is tried first, if it is not 0; else any free one.
  Status listen(std::uint16_t port, bool only_this) {
    const auto handle = [this](const std::shared_ptr<http::Exchange>& exchange) {
      exchange->respond(answer(exchange->request()));
    };
    auto server = http::Server::start({.port = port}, handle);
    if (!server && !only_this && port != 0) server = http::Server::start({.port = 0}, handle);
    if (!server) return Unexpected(std::move(server.error()));
    server_ = *std::move(server);
    return {};
  }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] std::string address() const {
    return "http://127.0.0.1:" + std::to_string(port()) + "/callback";
  }
  // Until this is called, every answer is refused: the port is open before the address of the login
  // exists.
  void expect(std::string state) {
    const std::lock_guard lock(mutex_);
    state_ = std::move(state);
  }
  // Nothing: the time is over, or the caller no longer waits.
  std::optional<Fields> wait(Clock::time_point deadline, const CancelToken& cancel) {
    constexpr std::chrono::milliseconds kMoment{20};
    std::unique_lock lock(mutex_);
    while (!fields_ && Clock::now() < deadline && !cancel.is_cancelled()) {
      came_.wait_for(lock, kMoment);
    }
    return fields_;
  }
  // Lets the browser's answer go out.
  void stop() { server_->stop(std::chrono::milliseconds(500)); }

 private:
  http::Response answer(const http::Request& request) {
    const auto page = [](unsigned status, const char* words) {
      return http::Response{
          .status = status,
          .content_type = "text/html; charset=utf-8",
          .headers = {{"cache-control", "no-store"}, {"referrer-policy", "no-referrer"}},
          .body = "<!doctype html><title>Tenon</title><p>" + std::string(words) + "</p>\n"};
    };
    if (request.path != "/callback") return page(404, "There is nothing here.");
    Fields fields = read_form(request.query);
    const std::lock_guard lock(mutex_);
    // Another page may send the browser here, too; only the one that we asked knows the state.
    if (state_.empty() || field(fields, "state") != state_) {
      return page(400, "This is not the login that Tenon waits for.");
    }
    // The browser may load the page twice; the first answer counts.
    if (!fields_) fields_ = std::move(fields);
    came_.notify_all();
    return page(200, "Tenon has the answer. You can close this window.");
  }

  std::mutex mutex_;  // guards the members below, except the server
  std::condition_variable came_;
  std::string state_;
  std::optional<Fields> fields_;
  std::unique_ptr<http::Server> server_;  // last, because its thread uses the others
};

}  // namespace

// 401: there was no token, or not one that is valid. 403: it may not do this; another token helps
// only if the server says that the scope is too small.
std::optional<Challenge> Challenge::of(unsigned status, const std::vector<http::Header>& headers,
                                       std::string token) {
  constexpr unsigned kUnauthorized = 401;
  constexpr unsigned kForbidden = 403;
  if (status != kUnauthorized && status != kForbidden) return std::nullopt;
  ChallengeReader reader(http::find_header(headers, "www-authenticate"));
  Challenge told{.status = status,
                 .error = reader.value("error"),
                 .scope = reader.value("scope"),
                 .resource_metadata = reader.value("resource_metadata"),
                 .token = std::move(token)};
  if (status == kForbidden && told.error != "insufficient_scope") return std::nullopt;
  return told;
}

struct Authorizer::Impl {
  explicit Impl(AuthorizerOptions from)
      : options(std::move(from)), store(options.tokens), may_be_local(is_loopback(options.url)) {
    if (auto kept = store.find(options.url); kept && *kept) grant = **std::move(kept);
  }

  /// How long the caller waits.
  struct Limits {
    Clock::time_point deadline;
    CancelToken cancel;
  };

  Status renew(const Challenge& challenge, const Limits& limits);
  Status get(const Challenge& challenge, const Limits& limits);

  [[nodiscard]] Error failed(const std::string& what) const {
    return {Errc::unavailable, options.name + ": " + what};
  }
  [[nodiscard]] Unexpected fail(const std::string& what) const { return Unexpected(failed(what)); }

  // Discovery.
  Expected<json::Value> ask(http::ClientRequest request, unsigned* status = nullptr);
  Expected<std::optional<json::Value>> document(const std::string& url);
  Status check(const std::string& url, const char* what) const;
  Expected<Found> discover(const Challenge& challenge);
  Expected<json::Value> described(const Challenge& challenge);
  Expected<Issuer> issuer_at(const std::string& name);
  Issuer issuer_without_metadata() const;

  // Clients.
  Status identify(const Found& found, const std::string& redirect, Grant& next);
  Status register_client(const Found& found, const std::string& redirect, Grant& next);
  static std::string method_for(const Issuer& issuer, const Grant& client);

  // Tokens.
  std::string scope_for(const Found& found, const Challenge& challenge) const;
  Status take_token(const Found& found, Fields fields, Grant& next);
  Status refresh(const Found& found, Grant next);
  Status log_in(const Found& found, const std::string& scope, const Limits& limits);
  Expected<std::string> code_of(const Fields& told, const Issuer& issuer) const;
  Status keep(Grant next);
  Status keep_alone(Grant next);

  const AuthorizerOptions options;
  const TokenStore store;
  const bool may_be_local;  // the server is on this machine, and so may be what it names
  std::unique_ptr<http::Client> client;  // used by the thread that renews

  std::mutex renewing;       // held by the thread that renews
  mutable std::mutex mutex;  // guards the grant
  Grant grant;
};

Authorizer::Authorizer(AuthorizerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
Authorizer::~Authorizer() = default;

std::string Authorizer::token() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->grant.access_token;
}

// A login may take minutes, so a caller tries again and again, and goes when its time is over. (No
// std::timed_mutex: ThreadSanitizer does not know the function by which it waits.)
Status Authorizer::renew(const Challenge& challenge, Clock::time_point deadline,
                         const CancelToken& cancel) {
  constexpr std::chrono::milliseconds kMoment{20};
  std::unique_lock alone(impl_->renewing, std::defer_lock);
  while (!alone.try_lock()) {
    if (Clock::now() >= deadline || cancel.is_cancelled()) {
      return impl_->fail("another call waits for its login");
    }
    std::this_thread::sleep_for(kMoment);
  }
  return impl_->renew(challenge, {.deadline = deadline, .cancel = cancel});
}

Status Authorizer::Impl::renew(const Challenge& challenge, const Limits& limits) {
  if (!client) {
    auto made = http::Client::create({});
    if (!made) return Unexpected(std::move(made.error()));
    client = *std::move(made);
  }
  {
    const std::lock_guard lock(mutex);
    // Another thread has renewed it meanwhile.
    if (grant.access_token != challenge.token) return {};
  }
  // Another process may have put a newer token into the file.
  auto kept = store.find(options.url);
  if (!kept) return Unexpected(failed(kept.error().message));
  if (*kept && (*kept)->access_token != challenge.token && !(*kept)->access_token.empty()) {
    const std::lock_guard lock(mutex);
    grant = **std::move(kept);
    return {};
  }
  return get(challenge, limits);
}

// Refreshes the token or gets a new one. `grant` is changed by the thread that renews alone, which
// therefore reads it without the lock.
Status Authorizer::Impl::get(const Challenge& challenge, const Limits& limits) {
  // A refreshed token has the scope of the old one (RFC 6749, 6), so it cannot have more.
  const bool can_refresh = !grant.refresh_token.empty() && challenge.error != "insufficient_scope";
  // Without a user and without a secret there is no way to a token; the operator is told a command.
  if (!can_refresh && !options.oauth.is_machine && !options.on_login) {
    const std::string command = "`tenon mcp login " + options.name + " --mcp FILE";
    if (!challenge.token.empty() && !challenge.scope.empty()) {
      return fail("its login is not enough: " + command + " --scope '" +
                  challenge.scope.substr(0, kMaxTold) + "'`");
    }
    return fail("it wants a login (" + command + "`), or its headers need an Authorization");
  }
  auto found = discover(challenge);
  if (!found) return Unexpected(std::move(found.error()));
  // What one authorization server gave is not shown to another one.
  if (grant.issuer != found->issuer.name) {
    const std::lock_guard lock(mutex);
    grant = {.issuer = found->issuer.name};
  }
  const std::string scope = scope_for(*found, challenge);
  if (challenge.error == "insufficient_scope" && scope == grant.scope && !challenge.token.empty()) {
    return fail("it refuses a token for all that it asks for (" + scope.substr(0, kMaxTold) + ")");
  }
  Status refreshed = fail("there is no refresh token");
  if (can_refresh && !grant.refresh_token.empty()) {
    refreshed = store.alone(limits.deadline, limits.cancel, [&]() -> Status {
      // Another process may have used it while this one waited.
      if (auto kept = store.find(options.url); kept && *kept && !(*kept)->access_token.empty() &&
                                               (*kept)->access_token != challenge.token) {
        const std::lock_guard lock(mutex);
        grant = **std::move(kept);
        return {};
      }
      return refresh(*found, grant);
    });
  }
  if (refreshed) return {};
  if (options.oauth.is_machine) {
    Grant next{.issuer = found->issuer.name, .scope = scope};
    if (Status known = identify(*found, "", next); !known) return known;
    Fields fields{{"grant_type", "client_credentials"}, {"resource", found->resource}};
    if (!scope.empty()) fields.emplace_back("scope", scope);
    if (Status taken = take_token(*found, std::move(fields), next); !taken) return taken;
    const std::lock_guard lock(mutex);
    grant = std::move(next);  // it is not kept: the secret gets another one at any time
    return {};
  }
  if (!options.on_login) {
    return fail("its login is over (" + refreshed.error().message + "): `tenon mcp login " +
                options.name + " --mcp FILE` renews it");
  }
  return log_in(*found, scope, limits);
}

// ---- discovery

// Refuses addresses at which secrets could be read on their way: all but https, and http on this
// machine if the server is on it, too.
Status Authorizer::Impl::check(const std::string& url, const char* what) const {
  const auto parsed = http::parse_url(url);
  if (parsed && (parsed->is_https || (may_be_local && is_loopback(url)))) return {};
  return fail(std::string(what) + " is no https address: " + url.substr(0, kMaxTold));
}

// The JSON of an answer, of any status if `status` is given, else of 200.
Expected<json::Value> Authorizer::Impl::ask(http::ClientRequest request, unsigned* status) {
  request.time_limit = kAskLimit;
  request.max_body_bytes = kMaxAnswerBytes;
  request.headers.push_back({"Accept", "application/json"});
  const std::string where(origin_of(request.url));
  auto answer = client->fetch(std::move(request));
  if (!answer) return fail(where + ": " + answer.error().message);
  if (status != nullptr) *status = answer->status;
  if (status == nullptr && answer->status != 200) {
    return fail(where + " answered with status " + std::to_string(answer->status));
  }
  auto parsed = parse_message(answer->body);
  if (parsed && parsed->if_object() != nullptr) return parsed;
  // The caller decides by the status; a body that is no object, such as a page, has no error in it.
  if (status != nullptr && answer->status >= 300) return json::Value(json::Object{});
  return fail(where + " answered with no object of JSON");
}

// Nothing: there is no such document (status 4xx).
Expected<std::optional<json::Value>> Authorizer::Impl::document(const std::string& url) {
  if (Status checked = check(url, "an address of its authorization"); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  unsigned status = 0;
  auto told = ask({.url = url}, &status);
  // Some servers answer every path with a page.
  const bool is_page = status == 200 && !told;
  if ((status >= 400 && status < 500) || is_page) return std::optional<json::Value>();
  if (!told) return Unexpected(std::move(told.error()));
  if (status != 200) {
    return fail(url.substr(0, kMaxTold) + " answered with status " + std::to_string(status));
  }
  return std::optional<json::Value>(*std::move(told));
}

// The description of the protected resource (RFC 9728); null: it has no description. For the server
// "https://a/b" it is looked for at https://a/.well-known/oauth-protected-resource/b, and then
// without the "/b".
Expected<json::Value> Authorizer::Impl::described(const Challenge& challenge) {
  constexpr std::string_view kWellKnown = "/.well-known/oauth-protected-resource";
  std::vector<std::string> places;
  if (!challenge.resource_metadata.empty()) {
    places.push_back(challenge.resource_metadata);
  } else {
    const std::string root = std::string(origin_of(options.url)) + std::string(kWellKnown);
    if (!path_of(options.url).empty()) places.push_back(root + std::string(path_of(options.url)));
    places.push_back(root);
  }
  for (const std::string& place : places) {
    auto told = document(place);
    if (!told) return Unexpected(std::move(told.error()));
    if (*told) return **std::move(told);
  }
  return json::Value();
}

// Finds out for which resource a token is, and which server gives it.
Expected<Found> Authorizer::Impl::discover(const Challenge& challenge) {
  const auto told = described(challenge);
  if (!told) return Unexpected(told.error());
  Found found{.resource = options.url};
  if (told->is_null()) {
    // As 2025-03-26 has it: the server's own origin is the authorization server.
    auto issuer = issuer_at(std::string(origin_of(options.url)));
    if (!issuer) return Unexpected(std::move(issuer.error()));
    found.issuer = *std::move(issuer);
    return found;
  }
  // RFC 9728, 3.3: the resource must be the one that we asked about. A path above ours is accepted,
  // too: tokens of "https://a" for the server "https://a/mcp". Any other name would let a server
  // get the tokens of another one.
  const std::string resource = json::text_in(*told, "resource");
  const auto theirs = http::parse_url(resource);
  const auto ours = http::parse_url(options.url);
  const std::string_view path = path_of(resource);
  const bool is_above =
      path_of(options.url).starts_with(path) &&
      (path_of(options.url).size() == path.size() || path_of(options.url)[path.size()] == '/');
  if (!theirs || !ours || theirs->is_https != ours->is_https || theirs->host != ours->host ||
      theirs->port != ours->port || !is_above) {
    return fail("it says that its tokens are for " + json::quoted(resource.substr(0, kMaxTold)) +
                ", which is another server");
  }
  found.resource = resource;
  found.scopes = list(*told, "scopes_supported");
  const auto servers = list(*told, "authorization_servers");
  if (servers.empty()) return fail("it names no authorization server");
  auto issuer = issuer_at(servers.front());
  if (!issuer) return Unexpected(std::move(issuer.error()));
  found.issuer = *std::move(issuer);
  return found;
}

// What revision 2025-03-26 takes for granted of a server without metadata: its own paths.
Issuer Authorizer::Impl::issuer_without_metadata() const {
  const std::string origin(origin_of(options.url));
  return {.name = origin,
          .authorization_endpoint = origin + "/authorize",
          .token_endpoint = origin + "/token",
          .registration_endpoint = origin + "/register",
          .auth_methods = {"none"}};
}

// Reads what an authorization server says about itself. For "https://a/b" the places are those of
// RFC 8414 (the well-known part before the path) and of OpenID Connect (before or after the path).
Expected<Issuer> Authorizer::Impl::issuer_at(const std::string& name) {
  constexpr std::string_view kOAuth = "/.well-known/oauth-authorization-server";
  constexpr std::string_view kOpenId = "/.well-known/openid-configuration";
  const std::string origin(origin_of(name));
  const std::string path(path_of(name));
  std::vector<std::string> places = {origin + std::string(kOAuth) + path,
                                     origin + std::string(kOpenId) + path};
  if (!path.empty()) places.push_back(origin + path + std::string(kOpenId));
  std::optional<json::Value> told;
  for (const std::string& place : places) {
    auto one = document(place);
    if (!one) return Unexpected(std::move(one.error()));
    if ((told = *std::move(one))) break;
  }
  if (!told) {
    if (name == origin_of(options.url)) return issuer_without_metadata();
    return fail(name.substr(0, kMaxTold) + " does not describe itself as an authorization server");
  }
  // RFC 8414, section 3.3: else one server could speak for another.
  if (json::text_in(*told, "issuer") != name) {
    return fail(name.substr(0, kMaxTold) + " says that it is " +
                json::quoted(json::text_in(*told, "issuer").substr(0, kMaxTold)));
  }
  const json::Value* const documents = told->find("client_id_metadata_document_supported");
  const json::Value* const names = told->find("authorization_response_iss_parameter_supported");
  Issuer issuer{.name = name,
                .authorization_endpoint = json::text_in(*told, "authorization_endpoint"),
                .token_endpoint = json::text_in(*told, "token_endpoint"),
                .registration_endpoint = json::text_in(*told, "registration_endpoint"),
                .auth_methods = list(*told, "token_endpoint_auth_methods_supported"),
                .scopes = list(*told, "scopes_supported"),
                .takes_metadata_documents = documents != nullptr && *documents == json::Value(true),
                .names_itself = names != nullptr && *names == json::Value(true)};
  if (issuer.auth_methods.empty()) issuer.auth_methods = {"client_secret_basic"};  // RFC 8414
  if (Status checked = check(issuer.token_endpoint, "its token_endpoint"); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  if (!options.oauth.is_machine) {
    if (Status checked = check(issuer.authorization_endpoint, "its authorization_endpoint");
        !checked) {
      return Unexpected(std::move(checked.error()));
    }
    // Without PKCE, anyone who sees the code in the browser's address could exchange it for the
    // token.
    if (!has(list(*told, "code_challenge_methods_supported"), "S256")) {
      return fail(name.substr(0, kMaxTold) + " does not protect logins by PKCE with S256");
    }
  }
  return issuer;
}

// ---- clients

// How the client shows its secret to the token endpoint; "none" for a public client.
std::string Authorizer::Impl::method_for(const Issuer& issuer, const Grant& client) {
  if (client.client_secret.empty()) return "none";
  for (const char* const method : {"client_secret_basic", "client_secret_post", "none"}) {
    if (has(issuer.auth_methods, method)) return method;
  }
  return "client_secret_basic";
}

// Sets who the client is: the configured id, the address of our metadata document, an earlier
// registration, or a new one, in this order.
Status Authorizer::Impl::identify(const Found& found, const std::string& redirect, Grant& next) {
  const OAuthConfig& config = options.oauth;
  if (!config.client_id.empty()) {
    next.client_id = config.client_id;
    next.client_secret = config.client_secret;
    next.client_auth = method_for(found.issuer, next);
    return {};
  }
  if (found.issuer.takes_metadata_documents && !config.client_metadata_url.empty()) {
    next.client_id = config.client_metadata_url;
    next.client_auth = "none";
    return {};
  }
  if (!next.client_id.empty()) return {};  // registered before
  return register_client(found, redirect, next);
}

// Registers a client with the address `redirect` (RFC 7591).
Status Authorizer::Impl::register_client(const Found& found, const std::string& redirect,
                                         Grant& next) {
  const Issuer& issuer = found.issuer;
  if (issuer.registration_endpoint.empty()) {
    return fail(issuer.name.substr(0, kMaxTold) +
                " registers no clients by itself: give \"oauth\": {\"clientId\": ...}, as its "
                "operator tells you");
  }
  if (Status checked = check(issuer.registration_endpoint, "its registration_endpoint"); !checked) {
    return checked;
  }
  // The last of these that the server knows. A program on a user's machine cannot keep a secret, so
  // "none" is best.
  std::string method = "none";
  for (const char* const one : {"client_secret_post", "client_secret_basic", "none"}) {
    if (has(issuer.auth_methods, one)) method = one;
  }
  const json::Object body{
      {"client_name", "Tenon"},
      {"application_type", "native"},
      {"redirect_uris", json::Array{redirect}},
      {"grant_types", json::Array{"authorization_code", "refresh_token"}},
      {"response_types", json::Array{"code"}},
      {"token_endpoint_auth_method", method},
  };
  unsigned status = 0;
  const auto told = ask({.method = "POST",
                         .url = issuer.registration_endpoint,
                         .headers = {{"Content-Type", "application/json"}},
                         .body = json::to_string(body)},
                        &status);
  if (!told) return Unexpected(told.error());
  if (status != 200 && status != 201) {
    return fail(issuer.name.substr(0, kMaxTold) + " does not register Tenon (status " +
                std::to_string(status) + ", " +
                json::quoted(json::text_in(*told, "error").substr(0, kMaxTold)) +
                "): give \"oauth\": {\"clientId\": ...}");
  }
  next.client_id = json::text_in(*told, "client_id");
  next.client_secret = json::text_in(*told, "client_secret");
  if (next.client_id.empty()) return fail("its registration gives no client_id");
  const std::string given = json::text_in(*told, "token_endpoint_auth_method");
  const bool is_known =
      given == "none" || given == "client_secret_basic" || given == "client_secret_post";
  next.client_auth = is_known ? given : method_for(issuer, next);
  return {};
}

// ---- tokens

// The scopes to ask for: those of the configuration and of the challenge, else all that the server
// lists; "" leaves the choice to the authorization server.
std::string Authorizer::Impl::scope_for(const Found& found, const Challenge& challenge) const {
  std::string scope = joined(words(options.oauth.scope + " " + challenge.scope));
  if (scope.empty()) scope = joined(found.scopes);
  // What the present token may do, the next one may do, too.
  if (challenge.error == "insufficient_scope") scope = grant.scope + " " + scope;
  if (!scope.empty() && !options.oauth.is_machine && has(found.issuer.scopes, "offline_access")) {
    scope += " offline_access";  // for a refresh token
  }
  return joined(words(scope));
}

// Asks the token endpoint, and puts what it gives into `next`.
Status Authorizer::Impl::take_token(const Found& found, Fields fields, Grant& next) {
  http::ClientRequest request{.method = "POST",
                              .url = found.issuer.token_endpoint,
                              .headers = {{"Content-Type", "application/x-www-form-urlencoded"}}};
  // Some servers look for the id in the body even if it stands in the header.
  fields.emplace_back("client_id", next.client_id);
  if (next.client_auth == "client_secret_basic") {
    request.headers.push_back(
        {"Authorization", "Basic " + base64(percent_encoded(next.client_id) + ":" +
                                            percent_encoded(next.client_secret))});
  } else if (next.client_auth == "client_secret_post") {
    fields.emplace_back("client_secret", next.client_secret);
  }
  request.body = form(fields);
  unsigned status = 0;
  const auto told = ask(std::move(request), &status);
  if (!told) return Unexpected(told.error());
  if (status != 200) {
    return fail(found.issuer.name.substr(0, kMaxTold) + " gives no token (status " +
                std::to_string(status) + ", " +
                json::quoted(json::text_in(*told, "error").substr(0, kMaxTold)) + ")");
  }
  const std::string token = json::text_in(*told, "access_token");
  // The token becomes part of a header, so it must not end the line or have bytes beyond ASCII.
  const bool is_sendable = !token.empty() && token.size() <= kMaxTokenBytes &&
                           std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7F; });
  const std::string type = json::text_in(*told, "token_type");
  const bool is_bearer = type.size() == 6 && (type[0] | 0x20) == 'b' && type.ends_with("earer");
  if (!is_sendable || !is_bearer) return fail("its token is not one that a request can carry");
  next.access_token = token;
  // An answer without a refresh token leaves the old one valid (RFC 6749, 6).
  if (const std::string refresh = json::text_in(*told, "refresh_token"); !refresh.empty()) {
    next.refresh_token = refresh;
  }
  return {};
}

// Writes the grant to the file and takes it. Called within store.alone(). If it cannot be written,
// this process has the token all the same, and the error is returned.
Status Authorizer::Impl::keep_alone(Grant next) {
  Status kept = store.keep(options.url, next);
  const std::lock_guard lock(mutex);
  grant = std::move(next);
  return kept;
}

Status Authorizer::Impl::refresh(const Found& found, Grant next) {
  Fields fields{{"grant_type", "refresh_token"},
                {"refresh_token", next.refresh_token},
                {"resource", found.resource}};
  if (Status taken = take_token(found, std::move(fields), next); !taken) return taken;
  return keep_alone(std::move(next));
}

// The code in the answer to a login. `iss` protects from an answer of another authorization server
// (RFC 9207): if it is there, or was promised, it must be right.
Expected<std::string> Authorizer::Impl::code_of(const Fields& told, const Issuer& issuer) const {
  const std::string from = field(told, "iss");
  const bool is_named =
      std::ranges::any_of(told, [](const auto& one) { return one.first == "iss"; });
  if ((is_named || issuer.names_itself) && from != issuer.name) {
    return fail("the answer to the login comes from " +
                (is_named ? json::quoted(from.substr(0, kMaxTold))
                          : std::string("a server that does not say who it is")) +
                ", and not from " + issuer.name.substr(0, kMaxTold));
  }
  if (const std::string error = field(told, "error"); !error.empty()) {
    return fail("the login failed: " + json::quoted(error.substr(0, kMaxTold)) + " " +
                json::quoted(field(told, "error_description").substr(0, kMaxTold)));
  }
  std::string code = field(told, "code");
  if (code.empty()) return fail("the answer to the login has no code");
  return code;
}

// Lets the user log in (authorization code with PKCE, RFC 7636). Servers compare the redirect
// address with the registered one, so an earlier registration is used again only if its port is
// free.
Status Authorizer::Impl::log_in(const Found& found, const std::string& scope,
                                const Limits& limits) {
  Callback callback;
  const std::uint16_t fixed = options.oauth.callback_port;
  if (Status listens = callback.listen(fixed != 0 ? fixed : grant.redirect_port, fixed != 0);
      !listens) {
    return fail("no port for the answer to the login: " + listens.error().message);
  }
  Grant next{.issuer = found.issuer.name, .redirect_port = callback.port(), .scope = scope};
  if (grant.redirect_port == next.redirect_port) {  // it was registered with this address
    next.client_id = grant.client_id;
    next.client_secret = grant.client_secret;
    next.client_auth = grant.client_auth;
  }
  if (Status known = identify(found, callback.address(), next); !known) return known;
  const std::string verifier = random_id("", 64);
  const std::string state = random_id("", 32);
  callback.expect(state);
  Fields query{{"response_type", "code"},
               {"client_id", next.client_id},
               {"redirect_uri", callback.address()},
               {"code_challenge", base64url(sha256(verifier))},
               {"code_challenge_method", "S256"},
               {"state", state},
               {"resource", found.resource}};
  if (!scope.empty()) query.emplace_back("scope", scope);
  const std::string& endpoint = found.issuer.authorization_endpoint;
  options.on_login(endpoint + (endpoint.find('?') == endpoint.npos ? "?" : "&") + form(query));
  const auto told = callback.wait(limits.deadline, limits.cancel);
  callback.stop();
  if (!told) return fail("there was no login in time");
  const auto code = code_of(*told, found.issuer);
  if (!code) return Unexpected(code.error());
  Fields fields{{"grant_type", "authorization_code"},
                {"code", *code},
                {"redirect_uri", callback.address()},
                {"code_verifier", verifier},
                {"resource", found.resource}};
  if (Status taken = take_token(found, std::move(fields), next); !taken) return taken;
  return store.alone(limits.deadline, limits.cancel, [&] { return keep_alone(std::move(next)); });
}

}  // namespace tenon::mcp
