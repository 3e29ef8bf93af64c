#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Sets of requests with what is right to answer: what `tenon bench model` reads. A set is JSON
/// Lines; docs/bench-model.md says what stands in a line.
///
///     Expected<Set> set = read_set("blind.jsonl");          // every line has been checked
///     for (std::size_t i = 0; i < set->size(); ++i) ask(set->row(i).request);
namespace tenon::app::bench {

inline constexpr std::size_t kMostLineBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMostCalls = 64;      ///< That a row wants, with those it allows.
inline constexpr std::size_t kMostAccepted = 256;  ///< Values of one argument.

struct WantedArgument {
  std::string key;
  std::vector<json::Value> accepted;
  bool may_be_absent = false;
};

struct WantedCall {
  std::string name;
  std::vector<WantedArgument> arguments;  ///< There are to be no others.
};

/// What a right answer is.
struct Wanted {
  enum class Kind : std::uint8_t {
    calls,     ///< Just these.
    none,      ///< No call.
    any_call,  ///< At least one, whichever.
  };
  Kind kind = Kind::none;
  std::vector<WantedCall> calls;                   ///< Each once, in any order.
  std::vector<WantedCall> optional;                ///< Each may come once besides.
  std::vector<std::vector<std::string>> mentions;  ///< Of each group the text has one at least.
};

struct Row {
  std::string id;
  std::string category;
  message::ChatRequest request;  ///< Messages and tools; the rest is as a client leaves it.
  Wanted wanted;
};

/// Fails with `invalid` at the first thing that is wrong, named by its path in the line:
/// "expect.calls[0].name: 'get_wether' is none of the tools".
[[nodiscard]] Expected<Row> parse_row(std::string_view line);

/// The lines of a file. They are kept as text, and read anew each time, so that a set of many tools
/// takes no more room than its file.
class Set {
 public:
  /// `text` as of a file; `name` is what errors begin with: "blind.jsonl, line 3: ...". Fails at
  /// the first line that is wrong, and where there is none. Empty lines and a byte order mark do
  /// not count, and lines with `"valid": false` are left out.
  [[nodiscard]] static Expected<Set> parse(std::string text, std::string name);

  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  /// `index` < size(). One without an id is called by its place: "blind.jsonl, line 3".
  [[nodiscard]] Row row(std::size_t index) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Lines that were left out: their own right answer does not fit the tools.
  [[nodiscard]] std::size_t left_out() const { return left_out_; }

 private:
  struct Line {
    std::size_t begin;
    std::size_t bytes;
    std::size_t number;
  };
  std::string name_;
  std::string text_;
  std::vector<Line> lines_;
  std::size_t left_out_ = 0;
};

/// The set in a file of at most 64 MiB, or in stdin for "-".
[[nodiscard]] Expected<Set> read_set(const std::string& path);

}  // namespace tenon::app::bench
