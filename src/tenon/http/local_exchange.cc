#include "tenon/http/local_exchange.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/base/log.h"

// An exchange without a network, for callers in this process (config/instance.cc, `tenon replay`):
// the handler writes into a State, and the caller takes pieces from it. It keeps the promises of
// the server's own exchange (server.cc, answer.cc): one answer, cut if the handler gives up,
// on_drained once a full queue is empty, on_closed if the caller goes first.

namespace tenon::http {

struct LocalAnswer::State {
  using Callback = std::function<void()>;

  std::mutex mutex;
  std::condition_variable changed;
  // `mutex` guards all of it; callbacks are called and destroyed without the lock.
  unsigned status = 0;
  std::string content_type;
  std::vector<Header> headers;
  std::string pending;
  bool has_begun = false;
  bool is_complete = false;   // nothing more will be written
  bool is_cancelled = false;  // nothing more will be read
  bool is_cut = false;
  Callback on_closed;
  Callback on_drained;
  std::size_t low_water = 0;
  bool was_high = false;  // low_water was reached since the last on_drained

  // Callbacks are moved out and destroyed without the lock, since what they own may come back here.
  void complete(bool cuts) {
    Callback closed;
    Callback drained;
    {
      const std::lock_guard lock(mutex);
      if (is_complete || is_cancelled) return;
      is_complete = true;
      is_cut = cuts;
      closed.swap(on_closed);
      drained.swap(on_drained);
    }
    changed.notify_all();
  }
};

/// The server's end.
class LocalAnswer::Side final : public Exchange {
 public:
  Side(Request request, std::shared_ptr<State> state)
      : request_(std::move(request)), state_(std::move(state)) {}
  // The handler has dropped the exchange: 500 if it never began, a cut stream if it did not end.
  ~Side() override {
    bool has_begun = false;
    {
      const std::lock_guard lock(state_->mutex);
      has_begun = state_->has_begun;
    }
    if (has_begun) {
      state_->complete(/*cuts=*/true);  // does nothing if the answer has ended
      return;
    }
    respond({.status = 500,
             .body = R"({"error":{"message":"The request could not be answered",)"
                     R"("type":"server_error","code":"internal_error"}})"});
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  const Request& request() const override { return request_; }
  void release_body() override {
    std::string().swap(request_.body);
    std::vector<Header>().swap(request_.headers);
  }

  void respond(Response response) override {
    if (!begin(response.status, std::move(response.content_type), std::move(response.headers))) {
      return;
    }
    write(std::move(response.body));
    end_stream();
  }
  void begin_stream(std::string content_type, std::vector<Header> headers) override {
    static_cast<void>(begin(200, std::move(content_type), std::move(headers)));
  }
  void write(std::string bytes) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->is_complete || state_->is_cancelled) return;
      if (state_->pending.empty()) {
        state_->pending = std::move(bytes);
      } else {
        state_->pending += bytes;
      }
      const std::size_t low_water = state_->low_water;
      if (low_water > 0 && state_->pending.size() >= low_water) state_->was_high = true;
    }
    state_->changed.notify_all();
  }
  void end_stream() override { state_->complete(/*cuts=*/false); }

  std::size_t queued_bytes() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->pending.size();
  }
  bool is_closed() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->is_cancelled || (state_->is_complete && state_->pending.empty());
  }
  void on_closed(std::function<void()> callback) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->is_cancelled) {
        if (!state_->is_complete) state_->on_closed.swap(callback);
        return;
      }
    }
    callback();
  }
  void on_drained(std::size_t low_water, std::function<void()> callback) override {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_complete || state_->is_cancelled) return;
    state_->low_water = low_water;
    state_->on_drained.swap(callback);
  }

 private:
  // False if the caller has gone, or if the answer has begun already.
  bool begin(unsigned status, std::string content_type, std::vector<Header> headers) {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_cancelled) return false;
    if (std::exchange(state_->has_begun, true)) {
      log::error("http: an answer has already begun");
      return false;
    }
    state_->status = status;
    state_->content_type = std::move(content_type);
    state_->headers = std::move(headers);
    return true;
  }

  Request request_;
  const std::shared_ptr<State> state_;
};

LocalAnswer::~LocalAnswer() {
  cancel();
}

// `wait` returns whether there are bytes to take or the answer has ended.
template <class Wait>
std::optional<std::string> LocalAnswer::take(Wait wait) {
  std::string piece;
  State::Callback drained;
  {
    std::unique_lock lock(state_->mutex);
    const bool has_come = wait(lock, [this] {
      return !state_->pending.empty() || state_->is_complete || state_->is_cancelled;
    });
    if (!has_come) return std::string();
    // Pending bytes go before the end, so a caller gets all of a complete answer.
    if (state_->is_cancelled || state_->pending.empty()) return std::nullopt;
    piece.swap(state_->pending);
    if (std::exchange(state_->was_high, false)) drained = state_->on_drained;
  }
  if (drained) drained();
  return piece;
}

std::optional<std::string> LocalAnswer::next() {
  return take([this](std::unique_lock<std::mutex>& lock, const auto& has_come) {
    state_->changed.wait(lock, has_come);
    return true;
  });
}

std::optional<std::string> LocalAnswer::next(std::chrono::milliseconds patience) {
  return take([this, patience](std::unique_lock<std::mutex>& lock, const auto& has_come) {
    return state_->changed.wait_for(lock, patience, has_come);
  });
}

unsigned LocalAnswer::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

std::string LocalAnswer::content_type() const {
  const std::lock_guard lock(state_->mutex);
  return state_->content_type;
}

std::string LocalAnswer::header(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = std::ranges::find(state_->headers, name, &Header::name);
  return found == state_->headers.end() ? std::string() : found->value;
}

void LocalAnswer::cancel() {
  State::Callback closed;
  State::Callback drained;
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->is_cancelled, true)) return;
    state_->is_cut = state_->is_cut || !state_->is_complete || !state_->pending.empty();
    std::string().swap(state_->pending);
    closed.swap(state_->on_closed);
    drained.swap(state_->on_drained);
  }
  state_->changed.notify_all();
  if (closed) closed();
}

bool LocalAnswer::was_cut() const {
  const std::lock_guard lock(state_->mutex);
  return state_->is_cut;
}

std::pair<std::shared_ptr<Exchange>, std::unique_ptr<LocalAnswer>> make_local_exchange(
    Request request) {
  auto state = std::make_shared<LocalAnswer::State>();
  auto exchange = std::make_shared<LocalAnswer::Side>(std::move(request), state);
  return {std::move(exchange), std::unique_ptr<LocalAnswer>(new LocalAnswer(std::move(state)))};
}

}  // namespace tenon::http
