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
/// Face transformers, the origin of every output byte, and limits on everything.
namespace tenon::jinja {

/// A stretch of the output that came from the template's own text (and its literals), or from the
/// data handed to it.
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
  std::string name;         ///< What errors call the template; "": they begin with the line.
  bool trim_blocks = true;  ///< transformers' settings.
  bool lstrip_blocks = true;
  bool superset = false;  ///< What GGUF templates need beyond Python: append, pop, from_json.
  std::size_t max_source_bytes = std::size_t{16} << 20;
  std::size_t max_depth = 200;  ///< Of nested blocks and expressions.
};

struct RenderOptions {
  /// Nodes visited, items walked, and bytes worked on by the few.
  std::size_t max_steps = 10'000'000;
  std::size_t max_output_bytes = std::size_t{16} << 20;
  std::size_t max_allocated_bytes = std::size_t{128} << 20;
  std::size_t max_call_depth = 200;  ///< Macros and recursive loops.
  std::int64_t now_unix_s = 0;       ///< For strftime_now; 0: the system's clock.
  /// In strings of the context, what stands between these two is the template's own text, and they
  /// themselves are nothing. For callers who write markers into a message; no data may hold them.
  /// Empty: there are none.
  std::string own_begin;
  std::string own_end;
  /// Strings of the context, by address, that are the template's own text as a whole: words of a
  /// protocol that the caller has checked, such as the role of a message.
  std::unordered_set<const json::Value*> own_values;
};

/// A compiled template: immutable, rendered from any number of threads at once.
class Template {
 public:
  /// Fails with `invalid` at a syntax error (line and column named), `unsupported`,
  /// `limit_exceeded`.
  [[nodiscard]] static Expected<std::shared_ptr<const Template>> compile(
      std::string_view source, const CompileOptions& options = {});

  /// Renders with the members of `context` as variables, all of which count as data, except the
  /// strings under `bos_token` and `eos_token`, which are the template's own control tokens, and
  /// what RenderOptions::own_begin and own_values say. Errors name the template, line and column,
  /// the expression there, and what its values were:
  ///
  ///     qwen, line 3, column 20: TypeError: can only concatenate str (not "NoneType") to str, in
  ///     'message.role + message.content' ("user" and None)
  ///
  /// The text of raise_exception comes alone behind the column.
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
