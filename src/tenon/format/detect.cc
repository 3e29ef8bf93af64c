#include "tenon/format/detect.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/format/definition.h"
#include "tenon/format/read_back.h"
#include "tenon/format/registry.h"
#include "tenon/format/space.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

// detect() asks in the order of detect.h, the surest sign first. A format is tried by its parser on
// turns that the model's own template has written (judge): a format that reads them back is right,
// whatever it is called. Several may be; then the readings are compared (Candidate::is_better), and
// at last what each would write itself.

namespace tenon::format {
namespace {

using message::ToolCall;

/// What a format's parser reads in a sample.
struct Reading {
  bool is_right = false;        // exactly the calls and nothing else
  bool begins_right = false;    // at least the name of the first call
  std::size_t diagnostics = 0;  // repairs and missing parts
  std::size_t unread = 0;       // bytes left as content, without white space

  // The smaller one is better.
  [[nodiscard]] auto rank() const { return std::tuple(!is_right, diagnostics, unread); }
};

std::size_t words(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return kSpace.find(c) == std::string_view::npos; }));
}

Reading judge(const message::Fold& fold, const CallSample& sample) {
  const message::Message& message = fold.message();
  const std::size_t unread = words(message.content.value_or(""));
  // Python's notation with more around it: the template prints whole messages.
  const bool is_printed =
      unread > 0 && std::ranges::find(fold.diagnostics(), "mended_arguments",
                                      &message::Diagnostic::code) != fold.diagnostics().end();
  return {.is_right = !is_printed && same_calls(message.tool_calls, sample.calls),
          .begins_right = !message.tool_calls.empty() &&
                          message.tool_calls.front().name == sample.calls.front().name,
          .diagnostics = fold.diagnostics().size(),
          .unread = unread};
}

Reading read(const std::shared_ptr<const Format>& format, const CallSample& sample) {
  return judge(fold_of(format, sample), sample);
}

/// The bytes of the rule's markers, so that the most specific rule wins; 0: the rule does not
/// apply.
template <class IsThere>
std::size_t weight(const DetectRule& rule, const IsThere& is_there) {
  if (!std::ranges::all_of(rule.all, is_there)) return 0;
  if (std::ranges::any_of(rule.none, is_there)) return 0;
  std::size_t bytes = 0;
  for (const std::string& marker : rule.all) bytes += marker.size();
  return bytes;
}

std::string quoted_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += " '" + text + "'";
  return list;
}

auto holds(std::string_view text) {
  return [text](std::string_view marker) { return text.find(marker) != std::string_view::npos; };
}

/// `text` on one line, cut if it is too long.
std::string quoted_line(std::string_view text) {
  constexpr std::size_t kMost = 160;
  const bool is_long = text.size() > kMost;
  if (is_long) text = text.substr(0, kMost);
  if (is_long) text.remove_suffix(utf8::open_tail(text));
  return json::quoted(text) + (is_long ? "..." : "");
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// The length of the common prefix of `written` and `text`, without white space.
std::size_t likeness(std::string_view written, std::string_view text) {
  std::size_t same = 0;
  for (std::size_t i = 0, j = 0;; ++i, ++j) {
    while (i < written.size() && is_space(written[i])) ++i;
    while (j < text.size() && is_space(text[j])) ++j;
    if (i == written.size() || j == text.size() || written[i] != text[j]) return same;
    ++same;
  }
}

/// A format that reads the first sample correctly, and how it compares with others that do.
struct Candidate {
  std::shared_ptr<const Format> format;
  std::vector<Reading> readings;  // for each sample
  bool writes_the_same = false;   // for the last sample
  std::size_t likeness = 0;       // of what it writes instead
  std::size_t weight = 0;         // of its heaviest rule that matches the template's source

  [[nodiscard]] bool is_better(const Candidate& other) const {
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const auto rank = readings[i].rank();
      const auto others = other.readings[i].rank();
      if (rank != others) return rank < others;
    }
    return std::tuple(writes_the_same, likeness, weight) >
           std::tuple(other.writes_the_same, other.likeness, other.weight);
  }
};

// The text after the end of the reasoning, if there is one.
std::string_view behind_reasoning(const Format& format, std::string_view turn) {
  std::size_t begin = 0;
  for (const std::string& close : format.reasoning_close) {
    const std::size_t at = turn.rfind(close);
    if (at != std::string_view::npos) begin = std::max(begin, at + close.size());
  }
  return turn.substr(begin);
}

/// `samples` must not be empty.
std::optional<Candidate> candidate(std::shared_ptr<const Format> format,
                                   const std::vector<CallSample>& samples,
                                   std::string_view chat_template) {
  Candidate found{.format = std::move(format)};
  for (const CallSample& sample : samples) {
    found.readings.push_back(read(found.format, sample));
    // The first sample has one call and must be read; the others only compare formats.
    if (!found.readings.front().is_right) return std::nullopt;
  }
  const CallSample& last = samples.back();
  if (const auto written = render_calls(*found.format, last.calls)) {
    const std::string_view turn = behind_reasoning(*found.format, last.text);
    // If the format reads a marker before it but does not write it, it is another form of the
    // marker.
    found.writes_the_same =
        holds(turn)(*written) && words(turn) <= words(*written) + found.readings.back().unread;
    if (!found.writes_the_same) found.likeness = likeness(*written, last.text);
  }
  for (const DetectRule& rule : found.format->detect) {
    found.weight = std::max(found.weight, weight(rule, holds(chat_template)));
  }
  return found;
}

class Detective {
 public:
  explicit Detective(const Clues& clues) : clues_(clues) {}

  // The surest sign is what the template itself writes for a call: a format that reads that call
  // back is the model's, whatever its name is.
  Detection by_call() const {
    if (clues_.samples.empty()) return {};
    std::optional<Candidate> best;
    for (const auto& format : all()) {
      auto next = candidate(format, clues_.samples, clues_.chat_template);
      if (next && (!best || next->is_better(*best))) best = std::move(next);
    }
    if (!best) return {};
    return {.format = best->format,
            .by = DecidedBy::call,
            .evidence = "it reads the call that the template writes: " +
                        quoted_line(clues_.samples.front().text)};
  }

  // The model's makers say so, but a template that writes another form is the better witness.
  Detection by_response_template() const {
    if (clues_.imported == nullptr) return {};
    if (!clues_.samples.empty() && !read(clues_.imported, clues_.samples.front()).is_right) {
      return {};
    }
    return {.format = clues_.imported,
            .by = DecidedBy::response_template,
            .evidence = "the model's response_template says so"};
  }

  Detection by_markers() const {
    return by_rules(holds(clues_.chat_template), DecidedBy::markers, "the template has");
  }

  Detection by_vocabulary() const {
    if (!clues_.in_vocabulary) return {};
    return by_rules(clues_.in_vocabulary, DecidedBy::vocabulary, "the vocabulary has");
  }

  // The longest part of the name wins, so that `qwen3-coder` is not taken for `qwen3`.
  Detection by_name() const {
    const std::string name = lower(clues_.model_name);
    Detection best;
    std::size_t longest = 0;
    for (const auto& format : all()) {
      for (const DetectRule& rule : format->detect) {
        for (const std::string& part : rule.model) {
          if (part.size() <= longest || !holds(name)(part)) continue;
          longest = part.size();
          best = {.format = format,
                  .by = DecidedBy::name,
                  .evidence = "the model's name has '" + part + "'"};
        }
      }
    }
    return best;
  }

  // A separate template says that the model knows tools, and not how it calls them. A definition
  // asks for that case with `tool_template`.
  Detection by_tool_template() const {
    if (!clues_.has_tool_template) return {};
    for (const auto& format : all()) {
      if (std::ranges::any_of(format->detect, &DetectRule::tool_template)) {
        return {.format = format,
                .by = DecidedBy::tool_template,
                .evidence = "the model has a template of its own for tools, and nothing says more"};
      }
    }
    return {};
  }

  std::string nothing() const {
    if (clues_.samples.empty()) {
      return "the template writes no calls, and no known format's markers are in it";
    }
    return "no known format reads the call that the template writes: " +
           quoted_line(clues_.samples.front().text);
  }

 private:
  // By the rule with the greatest weight.
  template <class IsThere>
  Detection by_rules(const IsThere& is_there, DecidedBy by, std::string_view what) const {
    Detection best;
    std::size_t most = 0;
    for (const auto& format : all()) {
      for (const DetectRule& rule : format->detect) {
        const std::size_t bytes = weight(rule, is_there);
        if (bytes <= most || !may_be(format)) continue;
        most = bytes;
        best = {.format = format, .by = by, .evidence = std::string(what) + quoted_list(rule.all)};
      }
    }
    return best;
  }

  // If the template writes calls, only a format that knows how one begins is possible.
  bool may_be(const std::shared_ptr<const Format>& format) const {
    return clues_.samples.empty() || read(format, clues_.samples.front()).begins_right;
  }

  const Clues& clues_;
};

}  // namespace

Detection detect(const Clues& clues) {
  const Detective detective(clues);
  for (const auto step :
       {&Detective::by_call, &Detective::by_response_template, &Detective::by_markers,
        &Detective::by_vocabulary, &Detective::by_name, &Detective::by_tool_template}) {
    Detection found = (detective.*step)();
    if (found.format != nullptr) return found;
  }
  return {.evidence = detective.nothing()};
}

std::optional<std::vector<ToolCall>> read_back(const std::shared_ptr<const Format>& format,
                                               const CallSample& sample) {
  const message::Fold fold = fold_of(format, sample);
  const Reading reading = judge(fold, sample);
  if (!reading.is_right || reading.unread > 0 || reading.diagnostics > 0) return std::nullopt;
  return fold.message().tool_calls;
}

std::string_view name_of(DecidedBy by) {
  switch (by) {
    case DecidedBy::nothing:
      return "nothing";
    case DecidedBy::call:
      return "call";
    case DecidedBy::response_template:
      return "response_template";
    case DecidedBy::markers:
      return "markers";
    case DecidedBy::vocabulary:
      return "vocabulary";
    case DecidedBy::name:
      return "name";
    case DecidedBy::tool_template:
      return "tool_template";
  }
  return "";
}

}  // namespace tenon::format
