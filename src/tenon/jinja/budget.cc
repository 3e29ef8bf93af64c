#include "tenon/jinja/budget.h"

namespace tenon::jinja {
namespace {

// The native stack that a rendering may use. The sanitizers' frames are several times as large.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::ptrdiff_t kMaxStackBytes = 4 << 20;
#else
constexpr std::ptrdiff_t kMaxStackBytes = 1 << 20;
#endif

}  // namespace

Budget::Budget(const RenderOptions& options)
    : options_(options),
      arena_(options.max_allocated_bytes),
      // From the frame that begins the rendering: what its caller has used does not count.
      stack_end_(static_cast<const char*>(__builtin_frame_address(0)) - kMaxStackBytes) {}

void Budget::fail(std::string_view kind, std::string message) const {
  throw Fault{
      .code = Errc::invalid, .message = std::move(message), .position = position_, .kind = kind};
}

void Budget::fail_limit(std::string message) const {
  throw Fault{Errc::limit_exceeded, std::move(message), position_};
}

void Budget::fail_steps() const {
  fail_limit("the template takes more than " + std::to_string(options_.max_steps) + " steps");
}

void Budget::fail_depth() const {
  fail_limit("the template calls itself more than " + std::to_string(options_.max_call_depth) +
             " deep, or its calls take more than " + std::to_string(kMaxStackBytes) +
             " bytes of stack");
}

// The message depends on why the value is undefined. Its words are jinja2's, which people look up.
void Budget::fail_undefined(const Value& value) const {
  const std::string name(value.text == nullptr ? "" : std::string_view(value.text, value.size));
  switch (static_cast<Lack>(value.lack)) {
    case Lack::name:
      fail("UndefinedError", "'" + name + "' is undefined");
    case Lack::attribute:
      fail("UndefinedError", "'" + object_name(value.of) + "' has no attribute '" + name + "'");
    case Lack::element:
      fail("UndefinedError", object_name(value.of) + " has no element " + name);
    case Lack::hint:
      fail("UndefinedError", name);
    case Lack::unsafe:
      fail("SecurityError",
           "access to attribute '" + name + "' of '" + object_name(value.of) + "' is unsafe");
  }
  fail("UndefinedError", name);
}

}  // namespace tenon::jinja
