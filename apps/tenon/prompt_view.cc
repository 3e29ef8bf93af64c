#include "prompt_view.h"

#include <algorithm>
#include <cstddef>

#include "terminal.h"

namespace tenon::app {
namespace {

constexpr std::string_view kTemplate = "\x1b[34m";
constexpr std::string_view kControl = "\x1b[7m";
constexpr std::string_view kPlain = "\x1b[0m";

// How many bytes at the beginning of `text` look like a control token ("<|im_end|>", "[INST]"); 0
// if they do not. Used where the model's control tokens are not known.
std::size_t marker_size(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  if (text.empty() || (text[0] != '<' && text[0] != '[')) return 0;
  const char close = text[0] == '<' ? '>' : ']';
  for (std::size_t i = 1; i < std::min(text.size(), kLongest); ++i) {
    const char c = text[i];
    if (c == close) return i > 1 ? i + 1 : 0;
    const bool is_word = close == '>' ? c != ' ' && c != '\n' && c != '<' && c != '"'
                                      : (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
    if (!is_word) return 0;
  }
  return 0;
}

// Bytes of the longest control token at the beginning of `text`.
std::size_t control_size(std::string_view text, const std::vector<std::string>& controls) {
  if (controls.empty()) return marker_size(text);
  std::size_t size = 0;
  for (const std::string& control : controls) {
    if (control.size() > size && text.starts_with(control)) size = control.size();
  }
  return size;
}

void append(std::string& out, std::string_view colour, std::string_view text) {
  if (text.empty()) return;
  out += colour;
  out += printable(text);
  out += kPlain;
}

// The template's text in its colour, with each control token in another.
void append_template(std::string& out, std::string_view text,
                     const std::vector<std::string>& controls) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = control_size(text.substr(at), controls);
    if (size == 0) {
      ++at;
      continue;
    }
    append(out, kTemplate, text.substr(begin, at - begin));
    append(out, kControl, text.substr(at, size));
    at += size;
    begin = at;
  }
  append(out, kTemplate, text.substr(begin));
}

}  // namespace

std::string coloured(std::string_view text, const std::vector<jinja::Span>& spans,
                     const std::vector<std::string>& controls) {
  std::string out;
  for (const jinja::Span& span : spans) {
    const std::string_view piece = text.substr(span.begin, span.end - span.begin);
    if (span.is_data) {
      out += printable(piece);
    } else {
      append_template(out, piece, controls);
    }
  }
  return out;
}

}  // namespace tenon::app
