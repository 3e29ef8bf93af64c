#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "recursive_choice.h"

#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/json/value.h"
#include "tenon/mcp/tool_server.h"

namespace tenon::app {

/// Folders whose files others may read, with all folders below them.
class OpenFolders {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< A larger file is refused.

  [[nodiscard]] static Expected<OpenFolders> of(const std::vector<std::string>& folders);

  /// The bytes of a file that `name` gives, absolute or relative to one of the folders. A file is
  /// where its symbolic links lead. What is outside fails as what does not exist, so that a client
  /// cannot find out what there is.
  [[nodiscard]] Expected<std::string> read(std::string_view name) const;

 private:
  std::vector<std::filesystem::path> folders_;  // canonical
};

struct FileQuestionOptions {
  RecursiveChoice choice;
  std::vector<std::string> folders;  ///< Empty: no questions are answered.
  double timeout_s = 600;
};

/// Questions about files, which a recursive model answers: one at a time, the others wait.
/// Thread-safe.
class FileQuestions {
 public:
  /// Loads the model.
  [[nodiscard]] static OrComplaint<std::shared_ptr<FileQuestions>> open(
      const FileQuestionOptions& options);

  /// `line` has `question` and `files`. Blocks until there is an answer or the call is cancelled.
  [[nodiscard]] Expected<json::Object> answer(const json::Object& line,
                                              const mcp::CallWatch& watch);

 private:
  explicit FileQuestions(OpenFolders folders) : folders_(std::move(folders)) {}
  void tell(const json::Object& event);
  [[nodiscard]] Expected<json::Object> run(const message::ChatRequest& request,
                                           const mcp::CallWatch& watch);

  const OpenFolders folders_;
  std::timed_mutex turn_;  // held while a question is answered
  std::mutex mutex_;
  const mcp::CallWatch* watch_ = nullptr;  // of the question that is answered; guarded by mutex_
  std::size_t steps_ = 0;                  // guarded by mutex_
  std::shared_ptr<chat::Model> model_;     // last: until it ends, it calls tell()
};

}  // namespace tenon::app
