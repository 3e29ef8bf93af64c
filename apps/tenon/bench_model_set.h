#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Sets of requests with their right answers, which `tenon bench model` reads. A set is JSON Lines;
/// docs/bench-model.md describes a line.
///
///     Expected<Set> set = read_set("blind.jsonl");          // every line has been checked
///     for (std::size_t i = 0; i < set->size(); ++i) ask(set->row(i).request);
namespace tenon::app::bench {

inline constexpr std::size_t kMostLineBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMostCalls = 64;      ///< In one row, wanted and allowed together.
inline constexpr std::size_t kMostAccepted = 256;  ///< Values of one argument.

struct WantedArgument {
  std::string key;
  std::vector<json::Value> accepted;
  bool may_be_absent = false;
};

struct WantedCall {
  std::string name;
  std::vector<WantedArgument> arguments;  ///< There must be no others.
};

/// What a right answer is.
struct Wanted {
  enum class Kind : std::uint8_t {
    calls,     ///< Exactly these.
    none,      ///< No call.
    any_call,  ///< At least one, of any tool.
  };
  Kind kind = Kind::none;
  std::vector<WantedCall> calls;                   ///< Each once, in any order.
  std::vector<WantedCall> optional;                ///< Each may also come once.
  std::vector<std::vector<std::string>> mentions;  ///< The text has at least one of each group.
};

struct Row {
  std::string id;
  std::string category;
  message::ChatRequest request;  ///< Messages and tools; everything else has its default.
  Wanted wanted;
};

/// Fails with `invalid` at the first thing that is wrong, named by its path in the line:
/// "expect.calls[0].name: 'get_wether' is not one of the tools".
[[nodiscard]] Expected<Row> parse_row(std::string_view line);

/// The lines of a file. They are kept as text and parsed at each use, so that a set with many tools
/// takes no more memory than its file.
class Set {
 public:
  /// `text` is that of a file; `name` begins the errors: "blind.jsonl, line 3: ...". Fails at the
  /// first wrong line, and if there is no line at all. Empty lines and a byte order mark do not
  /// count, and lines with `"valid": false` are left out.
  [[nodiscard]] static Expected<Set> parse(std::string text, std::string name);

  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  /// `index` < size(). A row without an id is named by its place: "blind.jsonl, line 3".
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
