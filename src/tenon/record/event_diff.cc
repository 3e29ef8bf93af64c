#include "tenon/record/event_diff.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "tenon/json/members.h"

// Events become lines (Lines), and two lists of lines are compared as `diff` does it: common lines
// at both ends are set aside, the longest common subsequence of the rest is found (common_of), and
// what is not in it is marked with - or +. Time and memory are the product of the two lengths of
// the rest, at most kMostCells cells of 4 bytes.

namespace tenon::record {
namespace {

// Lines that stay around a difference.
constexpr std::size_t kAround = 3;
// The table of common lines has at most so many cells: 64 MiB.
constexpr std::size_t kMostCells = std::size_t{1} << 24;

/// The lines of one choice. Texts of one kind are gathered until something else comes.
class Lines {
 public:
  void add(const json::Value& event) {
    const std::string kind = json::text_in(event, "event");
    if (kind == "content" || kind == "reasoning") return gather(kind, event);
    if (kind == "call_arguments") {
      return gather("arguments of call " + std::to_string(json::number_in(event, "index")), event);
    }
    end_text();
    if (kind == "call_begin") {
      lines_.push_back("call " + std::to_string(json::number_in(event, "index")) + " of " +
                       json::quoted(json::text_in(event, "name")));
    } else if (kind == "call_end") {
      lines_.push_back("end of call " + std::to_string(json::number_in(event, "index")) +
                       (json::flag_in(event, "incomplete") ? ", cut" : ""));
    } else if (kind == "diagnostic") {
      lines_.push_back("diagnostic " + json::text_in(event, "code") + ": " +
                       json::text_in(event, "message"));
    } else if (event.find("tool") != nullptr) {
      lines_.push_back("tool " + json::quoted(json::text_in(event, "tool")) + ", " +
                       json::text_in(event, "decision") + ": " + json::text_in(event, "arguments") +
                       " gave " + json::quoted(json::text_in(event, "output")));
    } else if (event.find("finish") == nullptr) {  // of servers of tools
      std::string line = kind;
      for (const char* const member : {"server", "name", "text", "error"}) {
        const std::string text = json::text_in(event, member);
        if (!text.empty()) line += " " + json::quoted(text);
      }
      lines_.push_back(std::move(line));
    } else {
      const std::string error = json::text_in(event, "error");
      lines_.push_back("finish " + json::text_in(event, "finish") + ", " +
                       json::text_in(event, "guarantee") + (error.empty() ? "" : ": " + error));
    }
  }

  std::vector<std::string> take() {
    end_text();
    return std::move(lines_);
  }

 private:
  void gather(const std::string& kind, const json::Value& event) {
    if (kind != kind_) end_text();
    kind_ = kind;
    text_ += json::text_in(event, "text");
  }

  // Cuts the gathered text after each line feed: "content \"Hello\\n\"".
  void end_text() {
    for (std::string_view rest = text_; !rest.empty();) {
      const std::size_t length = std::min(rest.find('\n'), rest.size() - 1) + 1;
      lines_.push_back(kind_ + " " + json::quoted(rest.substr(0, length)));
      rest.remove_prefix(length);
    }
    text_.clear();
  }

  std::vector<std::string> lines_;
  std::string kind_;  // of text_
  std::string text_;
};

using Texts = std::span<const std::string>;

/// For each line of `was` and `is`, without common ends, whether the other has it, too: those that
/// are marked are equal one by one.
struct Common {
  std::vector<bool> was;
  std::vector<bool> is;
};

// The longest common subsequence by the usual table: longest[a * row + b] is its length for what
// follows was[a] and is[b]. Without a table (too many cells) no line is common.
Common common_of(Texts was, Texts is) {
  Common common{std::vector<bool>(was.size()), std::vector<bool>(is.size())};
  if (was.empty() || is.empty() || was.size() > kMostCells / is.size()) return common;
  const std::size_t row = is.size() + 1;
  std::vector<std::uint32_t> longest((was.size() + 1) * row);
  for (std::size_t a = was.size(); a-- > 0;) {
    for (std::size_t b = is.size(); b-- > 0;) {
      longest[a * row + b] = was[a] == is[b]
                                 ? longest[(a + 1) * row + b + 1] + 1
                                 : std::max(longest[(a + 1) * row + b], longest[a * row + b + 1]);
    }
  }
  for (std::size_t a = 0, b = 0; a < was.size() && b < is.size();) {
    if (was[a] == is[b]) {
      common.was[a++] = common.is[b++] = true;
    } else if (longest[(a + 1) * row + b] >= longest[a * row + b + 1]) {
      ++a;
    } else {
      ++b;
    }
  }
  return common;
}

}  // namespace

std::vector<std::string> event_lines(std::span<const json::Value> events) {
  std::map<std::int64_t, Lines> choices;
  for (const json::Value& event : events) choices[json::number_in(event, "choice")].add(event);
  std::vector<std::string> out;
  for (auto& [choice, lines] : choices) {
    const std::string before = choice == 0 ? "" : "choice " + std::to_string(choice) + ": ";
    for (const std::string& line : lines.take()) out.push_back(before + line);
  }
  return out;
}

std::string difference(Texts was, Texts is) {
  const auto begin = static_cast<std::size_t>(std::ranges::mismatch(was, is).in1 - was.begin());
  if (begin == was.size() && begin == is.size()) return {};
  // How many lines both have at the end, without those that both have at the beginning.
  std::size_t end = 0;
  while (end < std::min(was.size(), is.size()) - begin &&
         was[was.size() - 1 - end] == is[is.size() - 1 - end]) {
    ++end;
  }
  const Common common = common_of(was.subspan(begin, was.size() - begin - end),
                                  is.subspan(begin, is.size() - begin - end));
  struct Line {
    char mark;
    std::string_view text;
  };
  std::vector<Line> lines;
  for (std::size_t i = 0; i < begin; ++i) lines.push_back({' ', was[i]});
  for (std::size_t a = 0, b = 0; a < common.was.size() || b < common.is.size();) {
    if (a < common.was.size() && !common.was[a]) {
      lines.push_back({'-', was[begin + a++]});
    } else if (b < common.is.size() && !common.is[b]) {
      lines.push_back({'+', is[begin + b++]});
    } else {
      lines.push_back({' ', was[begin + a++]});
      ++b;
    }
  }
  for (std::size_t i = was.size() - end; i < was.size(); ++i) lines.push_back({' ', was[i]});

  // Which common lines are near enough to a difference.
  std::vector<bool> is_shown(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].mark == ' ') continue;
    const std::size_t last = std::min(i + kAround + 1, lines.size());
    for (std::size_t k = i - std::min(i, kAround); k < last; ++k) is_shown[k] = true;
  }
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (is_shown[i]) {
      (out += lines[i].mark).append(" ").append(lines[i].text) += '\n';
    } else if (i == 0 || is_shown[i - 1]) {
      out += "...\n";
    }
  }
  return out;
}

}  // namespace tenon::record
