// The two fields of W3C Trace Context, one per line: what is read can be sent on as a field.
#include "tenon/base/trace.h"

#include <algorithm>
#include <string>

#include "fuzz.h"

using tenon::fuzz::promise;
namespace trace = tenon::trace;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tenon::fuzz::text_of(data, size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view state = text.substr(std::min(end + 1, text.size()));
  const trace::Context context = trace::read(text.substr(0, end), state);
  if (context.parent.empty()) {
    promise(context == trace::Context{}, "without a parent there is nothing");
    return 0;
  }
  promise(context.parent.size() == 55 && context.parent.starts_with("00-"),
          "a parent is one of version 00");
  promise(context.trace_id().size() == 32, "a trace has an id");
  promise(context.state.empty() || context.state == state, "a state is as it came, or none");
  promise(context.state.size() <= 512, "a state is bounded");
  for (const char c : context.parent + context.state) {
    promise((c >= ' ' && c <= '~') || c == '\t', "a field has no control characters");
  }
  promise(trace::read(context.parent, context.state) == context, "what is read is read again");
  return 0;
}
