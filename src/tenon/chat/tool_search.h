#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/chat/toolbox.h"
#include "tenon/message/message.h"

/// Finding tools by what they do, so that a prompt need not describe all of them.
namespace tenon::chat {

struct ToolSearchOptions {
  bool is_on = false;          ///< Tools with Tool::is_deferred are searched for.
  std::size_t from = 0;        ///< A request with so many tools defers all of them; 0: never.
  std::size_t most_found = 5;  ///< By one search.

  bool operator==(const ToolSearchOptions&) const = default;
};

/// Ranks tools for a query by Okapi BM25 (Robertson and Zaragoza, 2009; k1 1.2, b 0.75) over the
/// words of their names, descriptions and parameters. A word of the name counts three times.
/// Immutable.
class ToolIndex {
 public:
  explicit ToolIndex(const std::vector<message::Tool>& tools);
  /// Indices into `tools`, the best first, at most `most`; only tools that have a word of `query`.
  [[nodiscard]] std::vector<std::size_t> search(std::string_view query, std::size_t most) const;

 private:
  struct Use {
    std::size_t tool = 0;
    double count = 0;
  };
  struct Word {
    std::string text;
    std::vector<Use> uses;
  };
  [[nodiscard]] const Word* find(std::string_view text) const;

  std::vector<Word> words_;      // sorted by text
  std::vector<double> lengths_;  // of each tool, in words
  double mean_length_ = 0;
};

/// The words of a name or a text, in lower case: parts of `camelCase` and `snake_case` are words,
/// and a plural is its singular.
[[nodiscard]] std::vector<std::string> search_words(std::string_view text);

/// The names of the tools by family, a line for each: what stands before the first `_`, `.`, `-` or
/// capital letter of a name is its family. At most `most_bytes`; families that do not fit have
/// their counts alone, and then none.
[[nodiscard]] std::string families_of(const std::vector<message::Tool>& tools,
                                      std::size_t most_bytes);

/// The deferred tools of one request, and the tool that finds them. Found tools can be called, and
/// the prompt does not describe them: the result of the search does, so the prompt before it stays
/// the same. Thread-safe.
class ToolSearch final : public ToolSource {
 public:
  /// Takes the deferred tools out of `request.tools` and adds the tool that finds them. A tool that
  /// the history calls, or that `tool_choice` names, stays. Null, and nothing changes, if no tool
  /// is deferred.
  [[nodiscard]] static std::shared_ptr<ToolSearch> of(message::ChatRequest& request,
                                                      const ToolSearchOptions& options);
  /// Whether of() would defer a tool of a request with `more` tools besides its own.
  [[nodiscard]] static bool is_wanted(const message::ChatRequest& request, std::size_t more,
                                      const ToolSearchOptions& options);

  ToolSearch(std::vector<message::Tool> deferred, std::string name, std::size_t most_found);
  [[nodiscard]] const message::Tool& tool() const { return tool_; }
  /// Appends the tools that were found since the last call.
  void add_found(std::vector<message::Tool>& tools);

  [[nodiscard]] const std::string& name() const override { return source_; }
  [[nodiscard]] std::uint64_t version() const override { return 1; }
  [[nodiscard]] Expected<std::vector<message::Tool>> tools(const ToolContext& context) override;
  [[nodiscard]] Expected<ToolOutput> call(const std::string& tool, const json::Object& arguments,
                                          const ToolContext& context) override;

 private:
  const std::string source_ = "search";
  const std::vector<message::Tool> deferred_;
  const ToolIndex index_;
  const std::size_t most_found_;
  const message::Tool tool_;
  std::mutex mutex_;
  std::vector<bool> is_found_;         // guarded by mutex_
  std::vector<std::size_t> new_ones_;  // guarded by mutex_: found, and not yet added
};

}  // namespace tenon::chat
