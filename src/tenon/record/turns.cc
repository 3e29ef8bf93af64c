#include "tenon/record/turns.h"

#include <algorithm>
#include <utility>

namespace tenon::record {
namespace {

class InTurn final : public engine::EventSink {
 public:
  InTurn(std::shared_ptr<Turns> turns, const Run& run, const std::atomic<bool>& is_cancelled,
         std::shared_ptr<engine::EventSink> sink)
      : turns_(std::move(turns)), run_(run), is_cancelled_(is_cancelled), sink_(std::move(sink)) {}

  void on_token(const engine::Token& token) override {
    wait();
    sink_->on_token(token);
  }
  void on_reasoning(std::string_view text) override {
    wait();
    sink_->on_reasoning(text);
  }
  void on_call(const engine::CallPiece& piece) override {
    wait();
    sink_->on_call(piece);
  }
  void on_upstream(const message::UpstreamPart& part) override { sink_->on_upstream(part); }
  void on_end(const engine::RunEnd& end) override {
    turns_->wait(run_.choice, run_.end_line, is_cancelled_);
    sink_->on_end(end);
    turns_->end_run(run_.choice);
  }

 private:
  // What today's engine reads beyond the recorded steps comes with the end.
  void wait() {
    const std::size_t step = next_++;
    const std::size_t line = step < run_.steps.size() ? run_.steps[step].line : run_.end_line;
    turns_->wait(run_.choice, line, is_cancelled_);
  }

  const std::shared_ptr<Turns> turns_;
  const Run& run_;
  const std::atomic<bool>& is_cancelled_;
  const std::shared_ptr<engine::EventSink> sink_;
  std::size_t next_ = 0;
};

}  // namespace

// A run that has not begun holds the other choices up from its first line on. Runs of one choice
// follow each other.
Turns::Turns(const Read& read) {
  for (const Run& run : read.runs) {
    Choice& choice = choices_[run.choice];
    choice.runs.push_back(run.steps.empty() ? run.end_line : run.steps.front().line);
    choice.line = choice.runs.front();
  }
}

void Turns::wait(unsigned choice, std::size_t line, const std::atomic<bool>& is_cancelled) {
  std::unique_lock lock(mutex_);
  choices_[choice].line = line;
  changed_.notify_all();
  changed_.wait(lock, [&] {
    return is_cancelled || std::ranges::all_of(choices_, [&](const auto& other) {
             return other.first == choice || other.second.line >= line;
           });
  });
}

void Turns::end_run(unsigned choice) {
  const std::lock_guard lock(mutex_);
  Choice& own = choices_[choice];
  own.present = std::min(own.present + 1, own.runs.size());
  // The next run may have begun before this one's end is told, and a line never goes back: the
  // others would wait for what has come.
  own.line = std::max(own.line, own.present < own.runs.size() ? own.runs[own.present] : kNoLine);
  changed_.notify_all();
}

void Turns::end_choice(unsigned choice) {
  const std::lock_guard lock(mutex_);
  Choice& own = choices_[choice];
  own.present = own.runs.size();
  own.line = kNoLine;
  changed_.notify_all();
}

void Turns::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

std::shared_ptr<engine::EventSink> in_turn(std::shared_ptr<Turns> turns, const Run& run,
                                           const std::atomic<bool>& is_cancelled,
                                           std::shared_ptr<engine::EventSink> sink) {
  return std::make_shared<InTurn>(std::move(turns), run, is_cancelled, std::move(sink));
}

}  // namespace tenon::record
