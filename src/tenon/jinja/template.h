#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// Jinja as chat templates use it: Python's jinja2 3.1 with the settings and additions of Hugging
/// Face transformers. Every output byte has a known origin, and everything has a limit.
namespace tenon::jinja {

/// A stretch of the output that came from the template's own text (its literals included), or from
/// the data given to it.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_data = false;

  bool operator==(const Span&) const = default;
};

/// `spans` cover `text` from begin to end without gaps; neighbours differ in origin.
struct Rendered {
  std::string text;
  std::vector<Span> spans;
};

struct CompileOptions {
  std::string name;         ///< The template's name in errors; "": errors begin with the line.
  bool trim_blocks = true;  ///< transformers' settings.
  bool lstrip_blocks = true;
  bool superset = false;  ///< Adds what GGUF templates need beyond Python: append, pop, from_json.
  std::size_t max_source_bytes = std::size_t{16} << 20;
  std::size_t max_depth = 200;  ///< Nesting of blocks and expressions.
};

struct RenderOptions {
  /// Nodes visited and items walked, plus a share of the bytes worked on.
  std::size_t max_steps = 10'000'000;
  std::size_t max_output_bytes = std::size_t{16} << 20;
  std::size_t max_allocated_bytes = std::size_t{128} << 20;
  std::size_t max_call_depth = 200;  ///< Nesting of macros and recursive loops.
  std::int64_t now_unix_s = 0;       ///< For strftime_now; 0: the system's clock.
  /// In strings of the context, text between these two markers counts as the template's own; the
  /// markers themselves are removed. For callers who write markers into a message; no data may hold
  /// them. Empty: no markers.
  std::string own_begin;
  std::string own_end;
  /// Strings of the context, by address, that count as the template's own text as a whole: words of
  /// a protocol that the caller has checked, such as the role of a message.
  std::unordered_set<const json::Value*> own_values;
};

/// A compiled template. It is immutable and can be rendered from any number of threads at once.
class Template {
 public:
  /// Fails with `invalid` at a syntax error (the message has line and column), `unsupported`, or
  /// `limit_exceeded`.
  [[nodiscard]] static Expected<std::shared_ptr<const Template>> compile(
      std::string_view source, const CompileOptions& options = {});

  /// Renders with the members of `context` as variables. All of them count as data, except the
  /// strings under `bos_token` and `eos_token`, which are the template's own control tokens, and
  /// the text that RenderOptions::own_begin and own_values name. An error says the template, line
  /// and column, the expression there, and the values of its operands:
  ///
  ///     qwen, line 3, column 20: TypeError: can only concatenate str (not "NoneType") to str, in
  ///     'message.role + message.content' ("user" and None)
  ///
  /// The text of raise_exception comes after the column, without the expression and its values.
  [[nodiscard]] Expected<Rendered> render(const json::Object& context,
                                          const RenderOptions& options = {}) const;

  ~Template();
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

 private:
  struct Impl;
  explicit Template(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace tenon::jinja
