#include "tenon/api/background.h"

#include <algorithm>
#include <iterator>

#include "tenon/api/fields.h"

// A response without a client
//
// BackgroundRun looks like an exchange to the ChatAnswer, which writes the events of a stream to
// it. They are kept in events_, numbered by their place (first_ is the number of the first one that
// is still there, and the encoder numbers them in the same way), and passed on to all followers.
// The last event carries the whole response, which becomes ended_; from then on events are ignored.
//
// A response that ends by itself is stored by its encoder. A failed, cut or cancelled one is stored
// here, on a worker, because end() may run on an engine's thread.

namespace tenon::api {
namespace {

using json::Value;

constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

// The data of an event; null if it has none that is JSON.
Value data_of(std::string_view event) {
  constexpr std::string_view kData = "data: ";
  const std::size_t begin = event.find(kData);
  if (begin == event.npos) return {};
  const std::size_t at = begin + kData.size();
  return json::parse(event.substr(at, event.find('\n', at) - at)).value_or(Value());
}

// The response in this event if it is the last of the stream; null for other events.
Value last_response(std::string_view event) {
  for (const std::string_view type : {"completed", "incomplete", "failed"}) {
    if (!event.starts_with("event: response." + std::string(type) + "\n")) continue;
    Value data = data_of(event);
    Value* response = data.if_object() == nullptr ? nullptr : data.find("response");
    return response == nullptr ? Value() : std::move(*response);
  }
  return {};
}

}  // namespace

// The first event of a stream is `response.created`, with the response as it begins.
json::Object response_begun_in(std::string_view events) {
  Value data = data_of(events);
  Value* response = data.if_object() == nullptr ? nullptr : data.find("response");
  if (response == nullptr || response->if_object() == nullptr) return {};
  return std::move(*response->if_object());
}

BackgroundRun::BackgroundRun(json::Object begun, Keep keep, Workers& workers)
    : begun_(std::move(begun)), keep_(std::move(keep)), workers_(workers) {}

std::optional<http::Response> BackgroundRun::refusal() {
  const std::lock_guard lock(mutex_);
  is_accepted_ = true;
  return refusal_;
}

Value BackgroundRun::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

Value BackgroundRun::state() const {
  const std::lock_guard lock(mutex_);
  return ended_.is_null() ? Value(begun_) : ended_;
}

std::size_t BackgroundRun::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

json::Object BackgroundRun::with_status(std::string_view status) const {
  json::Object response = begun_;
  response.set("status", status);
  response.set("store", true);
  return response;
}

// The lock is held while the kept events are written, so that no event of take() comes between them
// and the followers' list, or twice.
bool BackgroundRun::follow(std::shared_ptr<http::Exchange> client,
                           std::vector<http::Header> headers, std::int64_t after) {
  const std::lock_guard lock(mutex_);
  const auto next = static_cast<std::size_t>(std::max<std::int64_t>(after + 1, 0));
  if (next < first_) return false;
  client->begin_stream("text/event-stream", std::move(headers));
  std::string out;
  for (std::size_t i = next - first_; i < events_.size(); ++i) out += events_[i];
  if (!ended_.is_null()) out += kLastEvent;
  if (!out.empty()) client->write(std::move(out));
  if (ended_.is_null()) {
    followers_.push_back(std::move(client));
  } else {
    client->end_stream();
  }
  return true;
}

// on_closed_ cancels the engine's runs, as if the client had gone. It is called without the lock,
// since it may end the answer at once and come back here.
Value BackgroundRun::cancel(bool is_kept) {
  std::function<void()> tell;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.is_null()) return ended_;
    is_cancelled_ = true;
    tell = std::exchange(on_closed_, nullptr);
  }
  if (tell) tell();
  end(with_status("cancelled"), /*is_stored=*/!is_kept);
  return state();
}

// Called if the stream has not begun. If the client already knows that the answer is being made,
// the error becomes a failed response.
void BackgroundRun::respond(http::Response response) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_accepted_) {
      refusal_ = std::move(response);
      return;
    }
  }
  const Value body = json::parse(response.body).value_or(Value());
  const auto text_at = [&](std::string_view pointer, std::string_view otherwise) {
    const Value* value = json::at_pointer(body, pointer);
    const std::string* text = value == nullptr ? nullptr : value->if_string();
    return text == nullptr ? std::string(otherwise) : *text;
  };
  json::Object failed = with_status("failed");
  failed.set("error",
             json::Object{{"code", response.status < 500 ? "invalid_prompt" : "server_error"},
                          {"message", text_at("/error/message", "the answer failed")}});
  end(std::move(failed), /*is_stored=*/false);
}

// The followers' streams begin when they come, each with its own headers.
void BackgroundRun::begin_stream(std::string, std::vector<http::Header>) {}

// Splits what the answer has written into events: several may come at once.
void BackgroundRun::write(std::string bytes) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    const std::size_t size = end == rest.npos ? rest.size() : end + 2;
    take(std::string(rest.substr(0, size)));
    rest.remove_prefix(size);
  }
}

void BackgroundRun::take(std::string event) {
  Value response = last_response(event);
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.is_null() || event == kLastEvent) return;  // followers get kLastEvent anyway
    // A keep-alive is passed on and not kept: it has no number.
    const bool is_comment = event.starts_with(':');
    std::erase_if(followers_, [](const auto& each) { return each->is_closed(); });
    for (const auto& each : followers_) each->write(event);
    if (is_comment) return;
    bytes_ += event.size();
    events_.push_back(std::move(event));
    while (bytes_ > kMaxBytes && !events_.empty()) {
      bytes_ -= events_.front().size();
      events_.pop_front();
      ++first_;
    }
  }
  if (response.is_null()) return;
  const bool is_failed = *response.find("status") == Value("failed");
  // The encoder does not store a failed response, so it is done here, and `store` is set as it will
  // be.
  if (is_failed) response.if_object()->set("store", true);
  end(std::move(response), /*is_stored=*/!is_failed);
}

// Ends once. Followers are told without the lock; they are not in the list any more.
void BackgroundRun::end(Value response, bool is_stored) {
  std::vector<std::shared_ptr<http::Exchange>> followers;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.is_null()) return;
    ended_ = response;
    followers = std::exchange(followers_, {});
    on_closed_ = nullptr;
  }
  for (const auto& each : followers) {
    each->write(std::string(kLastEvent));
    each->end_stream();
  }
  if (is_stored) return;
  workers_.post(
      [keep = keep_, response = std::move(response)] { static_cast<void>(keep(response)); });
}

// A stream that ends without its last event was cut.
void BackgroundRun::end_stream() {
  json::Object failed = with_status("failed");
  failed.set("error", json::Object{{"code", "server_error"}, {"message", "the answer was cut"}});
  end(std::move(failed), /*is_stored=*/false);
}

bool BackgroundRun::is_closed() const {
  const std::lock_guard lock(mutex_);
  return is_cancelled_;
}

// If it is cancelled before the answer asks to be told, the answer is told at once.
void BackgroundRun::on_closed(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_cancelled_) {
      if (ended_.is_null()) on_closed_ = std::move(callback);
      return;
    }
  }
  callback();
}

// It takes everything at once, so there is nothing to wait for.
void BackgroundRun::on_drained(std::size_t, std::function<void()>) {}

// ---- all background responses

// Removes runs that are over, except the newest: from the newest on, kMaxEnded of them and as many
// bytes as kMaxEndedBytes stay. Returns how many are not over.
std::size_t Background::sweep() {
  std::size_t running = 0;
  std::size_t ended = 0;
  std::size_t bytes = 0;
  for (auto at = runs_.rbegin(); at != runs_.rend(); ++at) {
    if (at->second->ended().is_null()) {
      ++running;
      continue;
    }
    bytes += at->second->bytes();
    if (++ended > kMaxEnded || bytes > kMaxEndedBytes) at->second = nullptr;
  }
  std::erase_if(runs_, [](const auto& each) { return each.second == nullptr; });
  return running;
}

bool Background::has_room() {
  const std::lock_guard lock(mutex_);
  return sweep() < kMaxRuns;
}

void Background::add(std::string_view owner, const std::string& id,
                     std::shared_ptr<BackgroundRun> run) {
  const std::lock_guard lock(mutex_);
  runs_.emplace_back(Name(owner, id), std::move(run));
}

std::shared_ptr<BackgroundRun> Background::find(std::string_view owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, run] : runs_) {
    if (name.first == owner && name.second == id) return run;
  }
  return nullptr;
}

void Background::remove(std::string_view owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(runs_, [&](const auto& each) {
    return each.first.first == owner && each.first.second == id;
  });
}

}  // namespace tenon::api
