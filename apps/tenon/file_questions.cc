#include "file_questions.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include <fcntl.h>

#include "tenon/base/descriptor.h"
#include "tenon/base/file.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/event_queue.h"
#include "tenon/config/models.h"
#include "tenon/message/event.h"
#include "tenon/rlm/task.h"

// The tool ask_about_files of `tenon mcp`. An agent names files; OpenFolders reads them, if they
// are in the folders that the user allowed, and FileQuestions asks a recursive model about them.

namespace tenon::app {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxFiles = 16;
// Told behind the question: the root model sees the keys of a context, and not what they are.
constexpr std::string_view kWhatIsContext =
    "\n\nThe context is a dict from the name of each file to its text.";
constexpr std::size_t kMaxQuestion = rlm::kMaxQuestionChars - kWhatIsContext.size();
constexpr std::chrono::milliseconds kGlance{50};  // between looks at whether a call is cancelled

bool is_below(const fs::path& file, const fs::path& folder) {
  const auto [rest, ignored] = std::ranges::mismatch(folder, file);
  return rest == folder.end();
}

// The bytes of a regular file below `folder`. The path is judged after the file was found: a
// descriptor that only names the file (O_PATH) tells where it is, and what is read is this file,
// whatever its path means by then. A link that leads out of the folder, or is exchanged meanwhile,
// opens nothing. A file elsewhere is answered like one that does not exist.
Expected<std::string> read_below(const fs::path& path, const fs::path& folder) {
  const Failure<Error> absent{Error{Errc::unavailable, "there is no such file in the folders"}};
  const Descriptor found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.is_open()) return absent;
  const fs::path self = "/proc/self/fd/" + std::to_string(found.get());
  std::error_code failure;
  const fs::path place = fs::read_symlink(self, failure);
  if (failure || !is_below(place, folder) || !fs::is_regular_file(self, failure)) return absent;
  auto bytes = tenon::read_file(self, OpenFolders::kMaxBytes);
  if (bytes) return bytes;
  return Unexpected(Error{bytes.error().code, bytes.error().code == Errc::limit_exceeded
                                                  ? "it has over 64 MiB"
                                                  : "it cannot be read"});
}

std::string counted_member(const json::Object& object, std::string_view key) {
  const json::Value* const found = object.find(key);
  return found != nullptr && found->if_number() != nullptr ? found->if_number()->text : "0";
}

// What an agent is told of a step of the run; "": nothing.
std::string step_of(const json::Object& event) {
  const json::Value* const type = event.find("type");
  const std::string* const name = type == nullptr ? nullptr : type->if_string();
  if (name == nullptr) return {};
  if (*name == "iteration") return "turn " + counted_member(event, "iteration");
  if (*name == "sub_call") {
    return "a question about " + counted_member(event, "prompt_chars") + " characters";
  }
  return {};
}

}  // namespace

Expected<OpenFolders> OpenFolders::of(const std::vector<std::string>& folders) {
  OpenFolders open;
  for (const std::string& folder : folders) {
    std::error_code failure;
    fs::path place = fs::canonical(folder, failure);
    if (failure || !fs::is_directory(place, failure)) {
      return Unexpected(Error{Errc::unavailable, "--folder " + folder + " is not a folder"});
    }
    open.folders_.push_back(std::move(place));
  }
  return open;
}

// Tries each folder. A name may be relative to any of them, or absolute and below one.
Expected<std::string> OpenFolders::read(std::string_view name) const {
  Error why{Errc::unavailable, "there is no such file in the folders"};
  if (name.empty() || name.find('\0') != std::string_view::npos) return Unexpected(why);
  for (const fs::path& folder : folders_) {
    auto bytes = read_below(folder / name, folder);  // an absolute name replaces the folder
    if (bytes) return bytes;
    // Found and not readable is another error, which another folder does not change.
    if (bytes.error().message != why.message) return bytes;
  }
  return Unexpected(why);
}

OrComplaint<std::shared_ptr<FileQuestions>> FileQuestions::open(
    const FileQuestionOptions& options) {
  auto folders = OpenFolders::of(options.folders);
  if (!folders) return complaint(kUsage, folders.error().message);
  const auto config = recursive_config(options.choice);
  if (!config) return Failure<Complaint>(config.error());
  auto chosen = choose_recursive(options.choice, *config);
  if (!chosen) return Failure<Complaint>(chosen.error());
  const auto most = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1000));
  chosen->limits.max_time = std::min(chosen->limits.max_time, most);
  const std::shared_ptr<FileQuestions> questions(new FileQuestions(*std::move(folders)));
  // Not an owner: the model is a member, and would own its owner.
  chosen->listener = [raw = questions.get()](const json::Object& event) { raw->tell(event); };
  auto model = config::load_recursive(*config, *std::move(chosen));
  if (!model) return complaint(model.error());
  questions->model_ = *std::move(model);
  return questions;
}

// Called by the thread of the run. Only one question is under way, so watch_ is its own.
void FileQuestions::tell(const json::Object& event) {
  const std::string step = step_of(event);
  const std::lock_guard lock(mutex_);
  if (step.empty() || watch_ == nullptr) return;
  watch_->tell(static_cast<double>(++steps_), step);
}

// The files become the context (rlm.context), which the root model reads by code.
Expected<json::Object> FileQuestions::answer(const json::Object& line,
                                             const mcp::CallWatch& watch) {
  const std::string* const question = line.find("question")->if_string();
  const json::Array* const files = line.find("files")->if_array();
  if (question == nullptr || question->find_first_not_of(" \t\r\n") == std::string::npos) {
    return Unexpected(Error{Errc::invalid, "question must be a text with words"});
  }
  if (utf8::length(*question) > kMaxQuestion) {
    return Unexpected(Error{Errc::limit_exceeded, "question may have " +
                                                      std::to_string(kMaxQuestion) +
                                                      " characters: put the rest into a file"});
  }
  if (files == nullptr || files->empty() || files->size() > kMaxFiles) {
    return Unexpected(Error{Errc::invalid, "files must be a list of 1 to 16 names"});
  }
  json::Object context;
  std::size_t size = 0;
  for (const json::Value& file : *files) {
    const std::string* const name = file.if_string();
    if (name == nullptr) return Unexpected(Error{Errc::invalid, "a file's name must be a text"});
    auto bytes = folders_.read(*name);
    if (!bytes) {
      return Unexpected(
          Error{bytes.error().code,
                "files: " + utf8::sanitized(name->substr(0, 256)) + ": " + bytes.error().message});
    }
    size += bytes->size();
    if (size > OpenFolders::kMaxBytes) {
      return Unexpected(Error{Errc::limit_exceeded, "the files have over 64 MiB together"});
    }
    context.set(*name, utf8::sanitized(*bytes));
  }
  message::ChatRequest request{.model = "rlm"};
  request.messages = {
      {.role = message::Role::user, .content = *question + std::string(kWhatIsContext)}};
  request.rlm = json::Object{{"context", std::move(context)}};
  // A cancelled question stops waiting for its turn.
  std::unique_lock turn(turn_, std::defer_lock);
  while (!turn.try_lock_for(kGlance)) {
    if (watch.cancel.is_cancelled()) return Unexpected(Error{Errc::unavailable, "cancelled"});
  }
  {
    const std::lock_guard lock(mutex_);
    watch_ = &watch;
    steps_ = 0;
  }
  auto answer = run(request, watch);
  const std::lock_guard lock(mutex_);
  watch_ = nullptr;
  return answer;
}

Expected<json::Object> FileQuestions::run(const message::ChatRequest& request,
                                          const mcp::CallWatch& watch) {
  auto queue = std::make_shared<chat::EventQueue>();
  auto running = model_->start(request, queue);
  if (!running) return Unexpected(Error{Errc::unavailable, running.error().error.message});
  message::Fold fold;
  bool is_over = false;
  bool is_ended = false;
  while (!is_over) {
    if (watch.cancel.is_cancelled() && !std::exchange(is_ended, true)) (*running)->cancel();
    for (const message::ChatEvent& event : queue->wait(kGlance)) {
      fold.add(event);
      is_over = is_over || std::holds_alternative<message::Finish>(event);
    }
  }
  const message::Finish& finish = fold.finish();
  if (is_ended) return Unexpected(Error{Errc::unavailable, "cancelled"});
  if (finish.reason == message::FinishReason::error) {
    return Unexpected(Error{Errc::unavailable, finish.error.message});
  }
  const std::string text = fold.message().text();
  // A run that a limit has ended says so in place of an answer (docs/rlm.md, "A turn").
  if (finish.reason == message::FinishReason::length && text.starts_with("No answer was found: ")) {
    return Unexpected(Error{Errc::unavailable, text});
  }
  json::Object result{{"answer", text}};
  for (const std::string_view key : {"forced", "iterations", "sub_calls"}) {
    if (const json::Value* const told = finish.rlm.find(key)) result.set(std::string(key), *told);
  }
  result.set("usage", json::Object{{"prompt_tokens", finish.usage.prompt_tokens},
                                   {"completion_tokens", finish.usage.completion_tokens}});
  return result;
}

}  // namespace tenon::app
