#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench_model_engine.h"
#include "bench_model_report.h"
#include "bench_model_score.h"
#include "bench_model_set.h"
#include "command.h"
#include "conversation.h"
#include "progress_line.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/chat/model.h"
#include "tenon/config/models.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"

// How `tenon bench model` runs
//
// The sets are read and checked first, and `limit` rows are chosen (drawn or spread). The model
// is loaded once and asked in up to two ways, constrained and unconstrained, over the same engine
// (asked). ask_all() asks each row in all ways before it goes on to the next, so that the second
// way finds the prompt in the cache; a row counts only if every way has an answer. An answer is
// judged by bench_model_score.cc and added to the tallies of its way, which bench_model_report.cc
// prints. Ctrl-C or a failure of the engine ends the run early; the figures so far are printed
// and written.

namespace tenon::app {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  AskOptions ask;
  std::string url;                // of a running server; "": a model in this process
  std::vector<std::string> sets;  // files of rows; "-" is stdin
  std::string way = "both";       // free (unconstrained), held (constrained), both
  std::string choice = "auto";    // auto, required, named
  bool constrained = false;       // of --constrained, or of `way`
  bool unconstrained = false;
  std::int64_t limit = 0;  // most requests; 0: all
  std::int64_t seed = -1;  // negative: the requests are taken evenly
  std::int64_t max_tokens = 512;
  std::int64_t timeout_s = 600;  // for one answer
  std::int64_t at_once = 1;      // requests
  std::int64_t failures = 0;     // wrong answers of each way that are shown
  std::string json;              // file for the figures; "-" is stdout, "": none
};

// ---- which requests

struct Place {
  std::size_t set;  // index in the sets
  std::size_t row;  // index in its set
};

// `count` of the numbers below `of`, in order. The same seed draws the same numbers everywhere:
// mt19937_64 is fixed by the standard, its distributions are not.
std::vector<std::size_t> drawn(std::size_t of, std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> numbers(of);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  // The beginning of a Fisher-Yates shuffle: the first `count` numbers are drawn, each equally
  // often but for the remainder of 2^64, which does not matter here.
  for (std::size_t i = 0; i < count; ++i) std::swap(numbers[i], numbers[i + random() % (of - i)]);
  numbers.resize(count);
  std::ranges::sort(numbers);
  return numbers;
}

// `count` of the numbers below `of`, with as many others between each two.
std::vector<std::size_t> spread(std::size_t of, std::size_t count) {
  std::vector<std::size_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = i * of / count;
  return numbers;
}

// A call can only be required where the row wants one.
bool is_asked(const bench::Row& row, std::string_view choice) {
  return choice == "auto" || row.wanted.kind != bench::Wanted::Kind::none;
}

// All requests that can be asked with this choice, or `limit` of them.
std::vector<Place> chosen(const std::vector<bench::Set>& sets, const BenchOptions& options) {
  std::vector<Place> all;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    for (std::size_t row = 0; row < sets[set].size(); ++row) {
      if (is_asked(sets[set].row(row), options.choice)) all.push_back({set, row});
    }
  }
  const auto limit = static_cast<std::size_t>(options.limit);
  if (limit == 0 || limit >= all.size()) return all;
  std::vector<Place> some;
  some.reserve(limit);
  const auto numbers = options.seed < 0
                           ? spread(all.size(), limit)
                           : drawn(all.size(), limit, static_cast<std::uint64_t>(options.seed));
  for (const std::size_t number : numbers) some.push_back(all[number]);
  return some;
}

// `named`: names the tools that the row wants, so that the model has to find only the arguments.
message::ToolChoice choice_of(const bench::Row& row, std::string_view choice) {
  if (choice == "auto") return {};
  message::ToolChoice demanded{.mode = message::ToolMode::required};
  if (choice == "required") return demanded;
  for (const bench::WantedCall& call : row.wanted.calls) {
    if (std::ranges::find(demanded.allowed, call.name) == demanded.allowed.end()) {
      demanded.allowed.push_back(call.name);
    }
  }
  return demanded;
}

OrComplaint<std::vector<bench::Set>> read_sets(const BenchOptions& options) {
  std::vector<bench::Set> sets;
  for (const std::string& path : options.sets) {
    auto set = bench::read_set(path);
    if (!set) return complaint(kBadInput, std::move(set.error().message));
    sets.push_back(*std::move(set));
  }
  return sets;
}

// ---- the model

// A running server is asked as an upstream with engine = "openai".
OrComplaint<config::ModelConfig> model_config(const BenchOptions& options) {
  if (options.url.empty()) {
    return single_model(options.ask, "what it answers is its parts' to decide: name one of these");
  }
  config::ModelConfig config{.name = options.ask.model.empty() ? options.url : options.ask.model,
                             .engine = "openai",
                             .urls = {options.url},
                             .upstream_model = options.ask.model};
  const char* const key = std::getenv("TENON_API_KEY");
  if (key != nullptr && *key != '\0') config.api_key_env = "TENON_API_KEY";
  return config;
}

/// One way to ask the model, and its results.
struct Asked {
  std::shared_ptr<bench::WatchedEngine> engine;
  std::shared_ptr<chat::Model> model;
  bench::Round round;
};

// One way of asking. Unconstrained, nothing is repaired either, and no answer is asked for again:
// what the model writes by itself is what counts.
OrComplaint<Asked> asked(config::ModelConfig config, const std::shared_ptr<engine::Engine>& engine,
                         std::chrono::seconds timeout, bool holds) {
  if (!holds) {
    config.normalize = false;
    config.on_unknown_tool = "content";
    config.on_invalid_call = "pass";
  }
  Asked one{.engine = std::make_shared<bench::WatchedEngine>(engine, holds)};
  auto model = config::load_model(config, one.engine, timeout);
  if (!model) return complaint(std::move(model.error()));
  one.model = *std::move(model);
  one.round.name = holds ? "constrained" : "unconstrained";
  return one;
}

OrComplaint<std::vector<Asked>> load(const BenchOptions& options,
                                     const config::ModelConfig& config) {
  const auto engine = config::load_engine(config);
  if (!engine) return complaint(engine.error());
  std::vector<Asked> all;
  for (const bool holds : {true, false}) {
    if (!(holds ? options.constrained : options.unconstrained)) continue;
    auto one = asked(config, *engine, std::chrono::seconds(options.timeout_s), holds);
    if (!one) return Failure<Complaint>(std::move(one.error()));
    all.push_back(*std::move(one));
  }
  return all;
}

// ---- the progress

/// How far the run is, and how much of it was right.
class Progress {
 public:
  explicit Progress(std::size_t of) : of_(of) {}

  void show(std::size_t done, const bench::Figure& right) {
    if (!line_.is_due(done == 0 || done == of_)) return;
    const Clock::duration time = Clock::now() - begin_;
    line_.show(line_.is_terminal() ? bench::progress_bar(done, of_, right, time, line_width())
                                   : bench::progress_line(done, of_, right, time));
  }

 private:
  const std::size_t of_;
  const Clock::time_point begin_ = Clock::now();
  ProgressLine line_;
};

// ---- the round

struct Answered {
  bench::Given given;
  bench::Verdict verdict;
  std::chrono::nanoseconds time{0};  // from the request to the last event
};

// Fails if the engine fails; a request that is refused counts as answered, and wrong.
OrComplaint<Answered> ask(const Asked& one, const bench::Row& row, const CancelToken& cancel) {
  Answered answered;
  const Clock::time_point begin = Clock::now();
  const auto fold = answer(*one.model, row.request, cancel);
  answered.time = Clock::now() - begin;
  if (!fold && fold.error().status != kBadInput) return Failure<Complaint>(fold.error());
  if (!fold) {
    answered.given.refusal = fold.error().message;
  } else if (fold->finish().reason == message::FinishReason::cancelled) {
    answered.given.refusal = "its time was over (--timeout)";
  } else {
    answered.given = bench::given_of(*fold);
  }
  answered.verdict = bench::judge(row, answered.given);
  return answered;
}

// The user's last text, to be shown beside a wrong answer.
std::string question_of(const message::ChatRequest& request) {
  const auto last = std::find_if(
      request.messages.rbegin(), request.messages.rend(),
      [](const message::Message& message) { return message.role == message::Role::user; });
  return last == request.messages.rend() ? "" : last->text();
}

// Adds an answer to the figures of its category; of the wrong ones, the first `failures` are kept
// to be shown.
void keep(const bench::Row& row, const Answered& answered, std::size_t failures,
          bench::Round& round) {
  round.category(row.category).add(row, answered.given, answered.verdict);
  round.time += answered.time;
  if (!answered.given.refusal.empty() && round.first_refusal.empty()) {
    round.first_refusal = row.id + ": " + answered.given.refusal;
  }
  if (answered.verdict.is_right || round.misses.size() >= failures) return;
  round.misses.push_back({.id = row.id,
                          .category = row.category,
                          .question = question_of(row.request),
                          .wanted = bench::described(row.wanted),
                          .given = bench::described(answered.given)});
}

// The rows that are asked, by several threads. Each has the answers of every way, or none yet.
class Questions {
 public:
  Questions(const BenchOptions& options, const std::vector<bench::Set>& sets,
            const std::vector<Asked>& all, const CancelToken& cancel)
      : options_(options),
        sets_(sets),
        all_(all),
        cancel_(cancel),
        places_(chosen(sets, options)),
        answers_(places_.size()),
        progress_(places_.size()) {
    progress_.show(0, {});
  }

  [[nodiscard]] std::size_t size() const { return places_.size(); }

  // Asks one after the other until none is left, a way failed or it was interrupted. The second way
  // of a row finds its prompt in the cache.
  void ask_on() {
    while (const auto i = next()) {
      const bench::Row row = row_of(*i);
      std::vector<Answered> answers;
      for (const Asked& one : all_) {
        auto answered = ask(one, row, cancel_);
        if (cancel_.is_cancelled()) return;
        if (!answered) return fail(std::move(answered.error()));
        answers.push_back(*std::move(answered));
      }
      put(*i, std::move(answers));
    }
  }

  // What only one way has answered does not count.
  void keep_in(std::vector<Asked>& all, bench::Report& report) const {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (answers_[i].empty()) continue;
      ++report.asked;
      const bench::Row row = row_of(i);
      for (std::size_t way = 0; way < all.size(); ++way) {
        keep(row, answers_[i][way], static_cast<std::size_t>(options_.failures), all[way].round);
      }
    }
  }

  [[nodiscard]] const std::optional<Complaint>& failure() const { return failure_; }

 private:
  [[nodiscard]] std::optional<std::size_t> next() {
    const std::lock_guard lock(mutex_);
    if (failure_ || cancel_.is_cancelled() || next_ == places_.size()) return std::nullopt;
    return next_++;
  }

  [[nodiscard]] bench::Row row_of(std::size_t i) const {
    bench::Row row = sets_[places_[i].set].row(places_[i].row);
    row.request.sampling.temperature = 0;
    row.request.tool_choice = choice_of(row, options_.choice);
    row.request.max_tokens = static_cast<std::uint32_t>(options_.max_tokens);
    return row;
  }

  void put(std::size_t i, std::vector<Answered> answers) {
    const std::lock_guard lock(mutex_);
    right_.add(answers.front().verdict.is_right);
    answers_[i] = std::move(answers);
    progress_.show(++done_, right_);
  }

  void fail(Complaint why) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
  }

  const BenchOptions& options_;
  const std::vector<bench::Set>& sets_;
  const std::vector<Asked>& all_;
  const CancelToken& cancel_;
  const std::vector<Place> places_;
  std::mutex mutex_;
  std::vector<std::vector<Answered>> answers_;  // all below: guarded by mutex_
  Progress progress_;
  std::size_t next_ = 0;
  std::size_t done_ = 0;
  bench::Figure right_;
  std::optional<Complaint> failure_;
};

OrComplaint<void> ask_all(const BenchOptions& options, const std::vector<bench::Set>& sets,
                          std::vector<Asked>& all, bench::Report& report) {
  const Interruption interruption(/*ends=*/true);
  Questions questions(options, sets, all, interruption.token());
  report.of = questions.size();
  {
    std::vector<std::jthread> others;
    for (std::int64_t i = 1; i < options.at_once; ++i) {
      others.emplace_back([&questions] { questions.ask_on(); });
    }
    // This thread is one of those that ask; the others end before the block does.
    questions.ask_on();
  }
  questions.keep_in(all, report);
  if (interruption.token().is_cancelled()) {
    return complaint(kSignal + interruption.signal(), "the rest was not asked: interrupted");
  }
  if (questions.failure()) return Failure<Complaint>(*questions.failure());
  return {};
}

bench::Report report_on(const BenchOptions& options, const config::ModelConfig& config,
                        const std::vector<bench::Set>& sets, const std::vector<Asked>& all) {
  const chat::Model& model = *all.front().model;
  bench::Report report{
      .model = config.name,
      .engine = model.capabilities().kind,
      .format = model.format() == nullptr ? "" : format::info(*model.format()).name,
      // The constrained way comes first.
      .constrained_by = std::string(
          engine::constrained_by_name(all.front().engine->inner().capabilities().constrained_by)),
      .choice = options.choice,
      .max_tokens = static_cast<std::size_t>(options.max_tokens)};
  for (const bench::Set& set : sets) {
    report.sets.push_back({.file = set.name(), .requests = set.size(), .left_out = set.left_out()});
  }
  return report;
}

OrComplaint<void> check_options(const BenchOptions& options, App app) {
  if (options.seed >= 0 && options.limit == 0) {
    return refuse_options(app, {"--seed"}, "without --limit: all requests are asked");
  }
  if (options.url.empty()) return {};
  return refuse_options(app, {"--config", "--chat-template", "--format", "--threads"},
                        "with --url: how a model is loaded is the server's matter");
}

int run_bench(BenchOptions options, App app) {
  if (const auto checked = check_options(options, app); !checked) return complain(checked.error());
  if (!options.constrained && !options.unconstrained) {
    options.constrained = options.way != "free";
    options.unconstrained = options.way != "held";
  }
  const auto sets = read_sets(options);
  if (!sets) return complain(sets.error());
  auto config = model_config(options);
  if (!config) return complain(config.error());
  config->execute = "client";  // the set's tools exist only by name: none can be run
  // Tested before hours of work and not after them; the file keeps its content until the end.
  const bool has_file = !options.json.empty() && options.json != "-";
  if (has_file && !std::ofstream(options.json, std::ios::app)) {
    return complain({kBadInput, options.json + ": cannot be written"});
  }
  auto all = load(options, *config);
  if (!all) return complain(all.error());

  bench::Report report = report_on(options, *config, *sets, *all);
  const auto done = ask_all(options, *sets, *all, report);
  if (!done) report.stopped_by = done.error().message;
  for (Asked& one : *all) {
    one.round.speed = one.engine->speed();
    report.rounds.push_back(std::move(one.round));
  }
  if (options.json != "-") std::cout << shown(bench::table(report), STDOUT_FILENO) << std::flush;
  if (!options.json.empty()) {
    std::ofstream file;
    if (has_file) file.open(options.json);
    std::ostream& out = has_file ? file : std::cout;
    out << json::dumps(bench::to_json(report), {.ensure_ascii = false, .indent = 2}) << '\n'
        << std::flush;
    if (!out) return complain({kBadInput, options.json + ": could not be written"});
  }
  return done ? static_cast<int>(kOk) : complain(done.error());
}

}  // namespace

Command add_bench(App tenon) {
  const App app = tenon.add_subcommand("bench", "Judges models by sets of requests");
  app.require_subcommand(1);
  const App model = app.add_subcommand(
      "model", "How often a model calls the right tool with the right arguments");
  auto options = std::make_shared<BenchOptions>();
  add_model_options(model, options->ask);
  model.add_option("--url", options->url,
                   "Asks a running server of OpenAI's API, like http://127.0.0.1:8080, with "
                   "TENON_API_KEY as its key; --model is then a name");
  model
      .add_option("--set", options->sets,
                  "File of requests and right answers, JSON Lines (docs/bench-model.md); '-' is "
                  "stdin. May come again")
      .required()
      .allow_extra_args(false);
  const Option way =
      model
          .add_option("--way", options->way,
                      "held: answers are held to the tools; free: as the model writes, nothing is "
                      "held or repaired; both (default)")
          .one_of({"free", "held", "both"});
  model
      .add_option("--choice", options->choice,
                  "The tool_choice of every request: auto (default), required, or named: only the "
                  "tools that are due. Requests where no call is due are asked with auto alone")
      .one_of({"auto", "required", "named"});
  model.add_flag("--constrained", options->constrained, "The same as --way held").excludes(way);
  model.add_flag("--unconstrained", options->unconstrained, "The same as --way free").excludes(way);
  model.add_option("--limit", options->limit, "At most so many requests, taken evenly from all")
      .between(std::int64_t{1}, std::int64_t{1} << 40);
  model
      .add_option("--seed", options->seed,
                  "With --limit: draws the requests; the same number draws the same ones")
      .between(std::int64_t{0}, std::int64_t{1} << 40);
  model.add_option("--max-tokens", options->max_tokens, "Most tokens of an answer (default 512)")
      .between(1, 1 << 30);
  model
      .add_option("--timeout", options->timeout_s,
                  "Most seconds that an answer may take (default 600; 0: any)")
      .between(0, 1 << 30);
  model
      .add_option("--at-once", options->at_once,
                  "So many requests at the same time (default 1): sooner done, and each is slower")
      .between(std::int64_t{1}, std::int64_t{64});
  model.add_option("--failures", options->failures, "Shows so many wrong answers of each way")
      .between(std::int64_t{0}, std::int64_t{1} << 40);
  model.add_option("--json", options->json,
                   "File for the figures as JSON; '-' is stdout, without the table");
  model.footer(
      "Ctrl-C and SIGTERM end it with the figures so far.\n"
      "Example:\n  tenon bench model --model model.gguf --set requests.jsonl --failures 5");
  app.footer("Example:\n  tenon bench model --model model.gguf --set requests.jsonl");
  return {app, [options, model] { return run_bench(*options, model); }};
}

}  // namespace tenon::app
