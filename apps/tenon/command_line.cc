#include "command_line.h"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// Thin wrappers, so that CLI11, a large header, is compiled here and not with every command. The
// templates are instantiated for the types that options have.

namespace tenon::app {

Option Option::required() const {
  return Option(*option_->required());
}

Option Option::envname(const std::string& name) const {
  return Option(*option_->envname(name));
}

Option Option::type_name(const std::string& name) const {
  return Option(*option_->type_name(name));
}

Option Option::excludes(Option other) const {
  return Option(*option_->excludes(other.option_));
}

Option Option::allow_extra_args(bool allow) const {
  return Option(*option_->allow_extra_args(allow));
}

Option Option::capture_default_str() const {
  return Option(*option_->capture_default_str());
}

Option Option::one_of(std::initializer_list<const char*> values) const {
  return Option(
      *option_->check(CLI::IsMember(std::vector<std::string>(values.begin(), values.end()))));
}

template <class T>
Option Option::between(T least, T most) const {
  return Option(*option_->check(CLI::Range(least, most)));
}
template Option Option::between(int, int) const;
template Option Option::between(std::int64_t, std::int64_t) const;
template Option Option::between(std::uint64_t, std::uint64_t) const;
template Option Option::between(double, double) const;

App App::add_subcommand(const std::string& name, const std::string& description) const {
  return App(*app_->add_subcommand(name, description));
}

void App::require_subcommand(int count) const {
  app_->require_subcommand(count);
}

template <class T>
Option App::add_option(const std::string& names, T& variable,
                       const std::string& description) const {
  return Option(*app_->add_option(names, variable, description));
}
template Option App::add_option(const std::string&, std::string&, const std::string&) const;
template Option App::add_option(const std::string&, std::vector<std::string>&,
                                const std::string&) const;
template Option App::add_option(const std::string&, int&, const std::string&) const;
template Option App::add_option(const std::string&, std::int64_t&, const std::string&) const;
template Option App::add_option(const std::string&, std::uint64_t&, const std::string&) const;
template Option App::add_option(const std::string&, double&, const std::string&) const;
template Option App::add_option(const std::string&, std::optional<std::string>&,
                                const std::string&) const;
template Option App::add_option(const std::string&, std::optional<std::int64_t>&,
                                const std::string&) const;
template Option App::add_option(const std::string&, std::optional<int>&, const std::string&) const;
template Option App::add_option(const std::string&, std::optional<double>&,
                                const std::string&) const;

Option App::add_flag(const std::string& names, bool& variable,
                     const std::string& description) const {
  return Option(*app_->add_flag(names, variable, description));
}

void App::footer(const std::string& text) const {
  app_->footer(text);
}

std::string App::name() const {
  return app_->get_name();
}

bool App::parsed() const {
  return app_->parsed();
}

std::size_t App::count(const std::string& option) const {
  const CLI::Option& found = *app_->get_option(option);
  const char* const set =
      found.get_envname().empty() ? nullptr : std::getenv(found.get_envname().c_str());
  return set != nullptr && found.results() == std::vector<std::string>{set} ? 0 : found.count();
}

}  // namespace tenon::app
