#include "tenon/jinja/template.h"

#include <algorithm>
#include <new>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/jinja/ast.h"
#include "tenon/jinja/vm.h"

// The border of the layer: inside it, failures are thrown as Fault; compile() and render() turn
// them into an Error with line, column, the expression there and the values of its operands.
namespace tenon::jinja {

struct Template::Impl {
  Program program;
};

namespace {

// Where the character begins to which byte `at` belongs.
std::size_t character_at(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// The tag or expression around `position`, or the one that begins there, as far as it stands on the
// same line, cut short on both sides. Nothing if the template is not valid UTF-8 there.
std::string expression_at(std::string_view source, std::size_t position) {
  constexpr std::size_t kFewBytes = 60;  // on each side
  const std::string_view before = source.substr(0, position);
  const std::string_view after = source.substr(before.size());
  // npos + 1 is 0: what is not found counts as the beginning.
  const std::size_t open = std::max(before.rfind("{{") + 1, before.rfind("{%") + 1);
  const std::size_t closed = std::max(before.rfind("}}") + 1, before.rfind("%}") + 1);
  const bool is_inside = open > closed;
  std::size_t begin = is_inside ? open + 1 : before.size();
  begin = std::max(begin, before.rfind('\n') + 1);
  std::size_t size = std::min({after.find("}}"), after.find("%}"), after.find('\n'), after.size()});
  const bool is_cut_before = before.size() - begin > kFewBytes;
  if (is_cut_before) begin = character_at(source, before.size() - kFewBytes);
  const bool is_cut_after = size > kFewBytes;
  if (is_cut_after) size = character_at(after, kFewBytes);
  std::string_view text = source.substr(begin, before.size() + size - begin);
  constexpr std::string_view kAround = " \t\r-+";
  const std::size_t first = text.find_first_not_of(kAround);
  if (first == std::string_view::npos || !utf8::is_valid(text)) return {};
  text = text.substr(first, text.find_last_not_of(kAround) + 1 - first);
  return (is_cut_before ? "..." : "") + std::string(text) + (is_cut_after ? "..." : "");
}

// Turns a position into "line 3, column 7: ...", followed by the expression there and its values.
Error error_of(const Fault& failure, const Program& program) {
  const std::string name = program.name.empty() ? "" : program.name + ", ";
  std::string what = failure.message;
  if (!failure.kind.empty()) what.insert(0, std::string(failure.kind) + ": ");
  if (failure.position == Fault::kNoPosition) {
    return {failure.code, (program.name.empty() ? "" : program.name + ": ") + what};
  }
  const LineColumn at = locate(program.source, failure.position);
  std::string message = name + "line " + std::to_string(at.line) + ", column " +
                        std::to_string(at.column) + ": " + what;
  // What the template raises says for itself what is wrong.
  if (!failure.is_raised) {
    const std::string expression = expression_at(program.source, failure.position);
    if (!expression.empty()) message += ", in '" + expression + "'";
    if (!failure.values.empty()) message += " (" + failure.values + ")";
  }
  return {.code = failure.code,
          .message = std::move(message),
          .line = static_cast<std::uint32_t>(at.line)};
}

}  // namespace

Template::Template(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Template::~Template() = default;

Expected<std::shared_ptr<const Template>> Template::compile(std::string_view source,
                                                            const CompileOptions& options) {
  auto impl = std::make_unique<Impl>();
  try {
    parse(impl->program, source, options);
    resolve(impl->program);
  } catch (const Fault& failure) {
    return Unexpected(error_of(failure, impl->program));
  } catch (const std::bad_alloc&) {
    return Unexpected(Error{Errc::unavailable, "out of memory"});
  }
  return std::shared_ptr<const Template>(new Template(std::move(impl)));
}

Expected<Rendered> Template::render(const json::Object& context,
                                    const RenderOptions& options) const {
  std::uint32_t position = Fault::kNoPosition;
  try {
    Vm vm(impl_->program, context, options);
    // The place that runs is known only while the Vm lives. Faults of the arena do not know it.
    try {
      return vm.render();
    } catch (...) {
      position = vm.position();
      throw;
    }
  } catch (Fault& failure) {
    if (failure.position == Fault::kNoPosition) failure.position = position;
    return Unexpected(error_of(failure, impl_->program));
  } catch (const std::bad_alloc&) {
    return Unexpected(Error{Errc::unavailable, "out of memory"});
  }
}

}  // namespace tenon::jinja
