#include "tenon/telemetry/exporter.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/http/client.h"
#include "tenon/json/value.h"
#include "tenon/telemetry/otlp.h"

// How spans leave
//
// ended() puts a span into a queue and never waits. One thread (send_all) takes batches, when one
// is full or its time has come, and posts them; metrics go out from time to time. send() repeats an
// attempt until it succeeds, is refused for good or is out of time; meanwhile the queue fills up,
// and what has no room is dropped and counted. At the end the thread sends what is left, within
// kLastWords.

namespace tenon::telemetry {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1'000};  // between attempts; it doubles
constexpr milliseconds kLongestPause{30'000};
constexpr std::size_t kMaxAnswerBytes = std::size_t{1} << 20;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// About what the span takes in memory and, in JSON, on the wire.
std::size_t bytes_of(const trace::SpanData& span) {
  constexpr std::size_t kRest = 400;
  constexpr std::size_t kEach = 64;
  std::size_t bytes = kRest + span.name.size() + span.message.size() + span.state.size();
  for (const auto& [key, value] : span.attributes) {
    bytes += kEach + key.size();
    if (const auto* const text = std::get_if<std::string>(&value)) bytes += text->size();
    if (const auto* const texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& text : *texts) bytes += kEach + text.size();
    }
  }
  return bytes;
}

// The statuses of OTLP (docs/specs/otlp, "Retryable Response Codes").
bool may_be_asked_again(unsigned status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

/// How one attempt ended.
struct Attempt {
  bool is_taken = false;
  bool may_try_again = false;
  milliseconds wait{0};        ///< As the receiver says; 0: it says nothing.
  std::uint64_t rejected = 0;  ///< How many of a request that was taken.
  std::string why;
};

// The number of spans that a receiver did not take of a request that it accepted.
std::uint64_t rejected_in(const std::string& body) {
  const auto told = json::parse(body);
  if (!told) return 0;
  const json::Value* const count = json::at_pointer(*told, "/partialSuccess/rejectedSpans");
  if (count == nullptr) return 0;
  // The encoding writes 64 bits as a string, and takes numbers as well.
  const std::string text =
      count->if_string() != nullptr ? *count->if_string() : json::to_string(*count);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

struct Exporter::Impl {
  Impl(Settings chosen, std::string version)
      : settings(std::move(chosen)), sender{settings.resource, std::move(version)} {}

  void work();
  void send_all();
  [[nodiscard]] std::vector<trace::SpanData> take_batch();
  void send_spans(const std::vector<trace::SpanData>& batch);
  void send_metrics();
  Attempt send(const std::string& url, const std::vector<http::Header>& headers, std::string body);
  Attempt attempt(const std::string& url, const std::vector<http::Header>& headers,
                  const std::string& body, Clock::time_point deadline);
  [[nodiscard]] bool pause(milliseconds least, Clock::time_point deadline);
  void tell(const std::string& url, const Attempt& outcome);

  const Settings settings;
  const Sender sender;
  const std::int64_t began_ns = now_ns();
  std::unique_ptr<http::Client> client;
  Histograms histograms;
  // Spans that were sent, found no room in the queue, or were refused or lost on their way.
  std::atomic<std::uint64_t> exported = 0;
  std::atomic<std::uint64_t> dropped = 0;
  std::atomic<std::uint64_t> failed = 0;
  bool is_failing = false;                          // of the thread
  std::minstd_rand chance{std::random_device{}()};  // of the thread

  std::mutex mutex;  // guards the members below
  std::condition_variable wake;
  std::deque<trace::SpanData> queue;
  std::size_t queue_bytes = 0;
  std::optional<Clock::time_point> ends;  // until then the last words may be said
  std::thread thread;
};

// Call under the mutex.
std::vector<trace::SpanData> Exporter::Impl::take_batch() {
  std::vector<trace::SpanData> batch;
  std::size_t bytes = 0;
  while (!queue.empty() && batch.size() < settings.max_batch && bytes < kMaxBatchBytes) {
    const std::size_t size = bytes_of(queue.front());
    bytes += size;
    queue_bytes -= std::min(queue_bytes, size);
    batch.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  return batch;
}

// Runs in the thread of its own. After an error, such as a lack of memory, it begins anew.
void Exporter::Impl::work() {
  const crash::ThreadStack stack;
  while (true) {
    try {
      return send_all();
    } catch (const std::exception& thrown) {
      log::error(std::string("telemetry: ") + thrown.what());
    }
    std::this_thread::sleep_for(kFirstPause);
    const std::lock_guard lock(mutex);
    if (ends) return;
  }
}

// Returns when the exporter ends.
void Exporter::Impl::send_all() {
  auto spans_due = Clock::now() + settings.delay;
  auto metrics_due = Clock::now() + settings.metrics_interval;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait_until(lock, std::min(spans_due, metrics_due),
                    [this] { return ends || queue.size() >= settings.max_batch; });
    const bool is_last = ends.has_value();
    const bool has_full = queue.size() >= settings.max_batch;
    if (is_last || has_full || Clock::now() >= spans_due) {
      auto batch = take_batch();
      while (!batch.empty()) {
        lock.unlock();
        send_spans(batch);
        lock.lock();
        // What has come meanwhile waits for its time.
        const bool goes_on = is_last || queue.size() >= settings.max_batch;
        batch = goes_on ? take_batch() : std::vector<trace::SpanData>();
      }
      spans_due = Clock::now() + settings.delay;
    }
    if (is_last || Clock::now() >= metrics_due) {
      lock.unlock();
      send_metrics();
      lock.lock();
      metrics_due = Clock::now() + settings.metrics_interval;
    }
    if (is_last) return;
  }
}

// Sends a batch and counts what became of its spans.
void Exporter::Impl::send_spans(const std::vector<trace::SpanData>& batch) {
  try {
    const Attempt outcome =
        send(settings.traces_url, settings.traces_headers, traces_request(sender, batch));
    const std::uint64_t lost =
        outcome.is_taken ? std::min<std::uint64_t>(outcome.rejected, batch.size()) : batch.size();
    failed += lost;
    exported += batch.size() - lost;
  } catch (const std::exception& thrown) {
    failed += batch.size();
    log::error(std::string("telemetry: ") + thrown.what());
  }
}

void Exporter::Impl::send_metrics() {
  if (settings.metrics_url.empty()) return;
  try {
    std::string body = metrics_request(sender, histograms, began_ns, now_ns());
    (void)send(settings.metrics_url, settings.metrics_headers, std::move(body));
  } catch (const std::exception& thrown) {
    log::error(std::string("telemetry: ") + thrown.what());
  }
}

// Sends until it is taken, refused, or out of time.
Attempt Exporter::Impl::send(const std::string& url, const std::vector<http::Header>& headers,
                             std::string body) {
  const auto deadline = Clock::now() + settings.timeout;
  milliseconds wait = kFirstPause;
  while (true) {
    Attempt outcome = attempt(url, headers, body, deadline);
    const bool has_ended = outcome.is_taken || !outcome.may_try_again;
    if (has_ended || !pause(outcome.wait.count() > 0 ? outcome.wait : wait, deadline)) {
      tell(url, outcome);
      return outcome;
    }
    wait = std::min(2 * wait, kLongestPause);
  }
}

// Posts once and waits for the answer. A receiver that cannot be reached may be asked again.
Attempt Exporter::Impl::attempt(const std::string& url, const std::vector<http::Header>& headers,
                                const std::string& body, Clock::time_point deadline) {
  struct Answer {
    unsigned status = 0;
    std::string body;
    milliseconds wait{0};
    std::promise<Status> ended;
  };
  const auto answer = std::make_shared<Answer>();
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  http::ClientRequest request{.method = "POST",
                              .url = url,
                              .headers = headers,
                              .body = body,
                              .time_limit = std::max(left, milliseconds(1)),
                              .max_body_bytes = kMaxAnswerBytes};
  request.headers.push_back({"content-type", "application/json"});
  // http::Client does not decompress.
  request.headers.push_back({"accept-encoding", "identity"});
  auto call =
      client->send(std::move(request),
                   {.on_head =
                        [answer](unsigned status, const std::vector<http::Header>& said) {
                          answer->status = status;
                          const std::string_view after = http::find_header(said, "retry-after");
                          unsigned seconds = 0;
                          // A date instead of seconds leaves 0, so our own pause is used.
                          std::from_chars(after.data(), after.data() + after.size(), seconds);
                          answer->wait = std::min(milliseconds(1000L * seconds), 2 * kLongestPause);
                        },
                    .on_body = [answer](std::string_view bytes) { answer->body.append(bytes); },
                    .on_end = [answer](Status end) { answer->ended.set_value(std::move(end)); }});
  if (!call) return {.why = call.error().message};
  std::future<Status> ended = answer->ended.get_future();
  constexpr milliseconds kLook{50};
  // Looks now and then, because the program may end meanwhile.
  while (ended.wait_for(kLook) == std::future_status::timeout) {
    const std::lock_guard lock(mutex);
    if (ends && Clock::now() >= *ends) (*call)->cancel();
  }
  if (const Status end = ended.get(); !end) {
    return {.may_try_again = true, .why = end.error().message};
  }
  if (answer->status >= 200 && answer->status < 300) {
    return {.is_taken = true, .rejected = rejected_in(answer->body)};
  }
  return {.may_try_again = may_be_asked_again(answer->status),
          .wait = answer->wait,
          .why = "it answered " + std::to_string(answer->status)};
}

// Waits before another attempt, a little more or less than told, so that many clients do not come
// at once. False: no time is left for one.
bool Exporter::Impl::pause(milliseconds least, Clock::time_point deadline) {
  std::uniform_real_distribution<double> spread(0.8, 1.2);
  const auto wait =
      milliseconds(static_cast<std::int64_t>(static_cast<double>(least.count()) * spread(chance)));
  const auto until = Clock::now() + wait;
  std::unique_lock lock(mutex);
  if (until >= deadline) return false;
  wake.wait_until(lock, until, [&] { return ends && until >= *ends; });
  return !ends || until < *ends;
}

// Logs only when sending begins to fail and when it works again, not once for each batch.
void Exporter::Impl::tell(const std::string& url, const Attempt& outcome) {
  if (outcome.is_taken == !is_failing) return;
  is_failing = !outcome.is_taken;
  if (is_failing) {
    log::warn("telemetry: " + http::without_secrets(url) + " takes nothing: " + outcome.why);
  } else {
    log::info("telemetry: " + http::without_secrets(url) + " takes spans and metrics again");
  }
}

Exporter::Exporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Expected<std::shared_ptr<Exporter>> Exporter::start(Settings settings, std::string version) {
  auto client = http::Client::create({.ca_file = settings.ca_file});
  if (!client) return Unexpected(std::move(client.error()));
  auto impl = std::make_unique<Impl>(std::move(settings), std::move(version));
  impl->client = *std::move(client);
  try {
    impl->thread = std::thread([all = impl.get()] { all->work(); });
  } catch (const std::system_error& error) {
    return Unexpected(
        Error{Errc::unavailable, std::string("no thread can be started: ") + error.what()});
  }
  return std::shared_ptr<Exporter>(new Exporter(std::move(impl)));
}

Exporter::~Exporter() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ends = Clock::now() + kLastWords;
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

bool Exporter::samples(std::string_view trace_id, const trace::Context& parent) const {
  const Sampler& sampler = impl_->settings.sampler;
  if (sampler.is_parent_based && !parent.parent.empty()) {
    const char flags = parent.parent.back();  // the lowest bit of the last digit
    const int digit = flags >= 'a' ? flags - 'a' + 10 : flags - '0';
    return digit % 2 == 1;
  }
  if (sampler.ratio >= 1) return true;
  if (sampler.ratio <= 0) return false;
  // All services that ask for the same share sample the same traces.
  const std::string_view low = trace_id.substr(trace_id.size() - 16);
  std::uint64_t number = 0;
  std::from_chars(low.data(), low.data() + low.size(), number, 16);
  constexpr double kAll = 18446744073709551616.0;  // 2^64
  return static_cast<double>(number) < sampler.ratio * kAll;
}

bool Exporter::takes_contents() const {
  return impl_->settings.contents && log::content("x") == "x";
}

void Exporter::ended(trace::SpanData span) {
  // Metrics count all spans, sampled or not.
  impl_->histograms.add(span);
  if (!span.is_sampled || impl_->settings.traces_url.empty()) return;
  const std::size_t size = bytes_of(span);
  std::unique_lock lock(impl_->mutex);
  if (impl_->queue.size() >= impl_->settings.max_queue ||
      impl_->queue_bytes + size > kMaxQueueBytes) {
    ++impl_->dropped;
    return;
  }
  impl_->queue_bytes += size;
  impl_->queue.push_back(std::move(span));
  if (impl_->queue.size() < impl_->settings.max_batch) return;
  lock.unlock();
  impl_->wake.notify_one();
}

trace::SpanCounts Exporter::counts() const {
  return {.exported = impl_->exported, .dropped = impl_->dropped, .failed = impl_->failed};
}

}  // namespace tenon::telemetry
