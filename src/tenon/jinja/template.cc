#include "tenon/jinja/template.h"

#include <new>
#include <utility>

#include "tenon/jinja/ast.h"
#include "tenon/jinja/vm.h"

namespace tenon::jinja {

struct Template::Impl {
  Program program;
};

namespace {

// A position becomes "line 3, column 7: ...", with the source line behind it where it is short.
Error error_of(const Fault& failure, std::string_view source) {
  if (failure.position == Fault::kNoPosition) return {failure.code, failure.message};
  const LineColumn at = locate(source, failure.position);
  return {failure.code, "line " + std::to_string(at.line) + ", column " +
                            std::to_string(at.column) + ": " + failure.message};
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
    return Unexpected(error_of(failure, impl->program.source));
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
    try {
      return vm.render();
    } catch (...) {
      position = vm.position();
      throw;
    }
  } catch (Fault& failure) {
    if (failure.position == Fault::kNoPosition) failure.position = position;
    return Unexpected(error_of(failure, impl_->program.source));
  } catch (const std::bad_alloc&) {
    return Unexpected(Error{Errc::unavailable, "out of memory"});
  }
}

}  // namespace tenon::jinja
